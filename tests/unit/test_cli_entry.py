"""The entry point: what it imports, what it prints where, and how it ends."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from anabranch.cli import completion, main
from anabranch.cli.lazy import LazyGroup
from anabranch.cli.main import cli, run
from anabranch.model.errors import NotFoundError

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "cli.md"
HEAVY = {"pydantic", "httpx", "kubernetes", "kopf", "asyncpg", "sqlalchemy", "fastapi", "rich", "yaml", "asyncio"}


def imported_by(code):
    """The packages that a fresh interpreter has imported when it has run some code."""
    report = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def every_command(group=cli, path=()):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))


@pytest.fixture
def probe(monkeypatch):
    """Makes a command `probe` that does what it is told."""

    def make(act):
        monkeypatch.setitem(cli.commands, "probe", click.Command("probe", callback=act))

    return make


def test_the_help_imports_nothing_that_is_heavy():
    assert not imported_by("from anabranch.cli.main import run; run(['--help'])") & HEAVY


def test_completing_the_name_of_a_command_imports_nothing_that_is_heavy():
    offer = "from anabranch.cli.completion import offer; from anabranch.cli.main import cli; print(offer(cli, ['b']))"
    assert not imported_by(offer) & HEAVY


def test_completing_a_baselines_name_imports_no_client():
    words = "['baseline', 'show', '']"
    offer = (
        f"from anabranch.cli.completion import offer; from anabranch.cli.main import cli; print(offer(cli, {words}))"
    )
    assert not imported_by(offer) & (HEAVY - {"yaml"})


def test_checking_a_proof_imports_nothing_that_could_reach_a_network():
    packages = imported_by("import anabranch.cli.proof")
    assert "pydantic" in packages
    assert not packages & {"httpx", "kubernetes", "asyncpg"}


def test_every_command_explains_itself(capsys):
    for words in every_command():
        assert run([*words, "--help"]) == 0
        out, err = capsys.readouterr()
        assert (out.split("\n")[0].split(" [")[0], err) == (f"Usage: anabranch {' '.join(words)}", "")


def test_every_command_line_in_the_documentation_can_be_typed():
    lines = [line for line in DOCUMENTATION.read_text().splitlines() if line.startswith("$ anabranch ")]
    assert len(lines) > 15
    for line in lines:
        words = shlex.split(line.partition(" | ")[0], comments=True)[2:]
        group, context = cli, click.Context(cli)
        while isinstance(group, click.Group):
            name = words.pop(0)
            group = group.get_command(context, name)
            assert group, f"{name} in: {line}"
        known = {option for parameter in group.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, line


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, capsys):
    def absent(_module):
        raise ModuleNotFoundError("No module named 'kopf'", name="kopf")

    monkeypatch.setattr("anabranch.cli.lazy.importlib.import_module", absent)
    assert run(["operator"]) == 1
    assert "`anabranch operator` needs the package kopf: pip install 'anabranch[operator]'" in capsys.readouterr().err


def test_a_fault_of_our_own_is_not_taken_for_a_missing_package(monkeypatch):
    def absent(_module):
        raise ModuleNotFoundError("No module named 'anabranch.gone'", name="anabranch.gone")

    monkeypatch.setattr("anabranch.cli.lazy.importlib.import_module", absent)
    with pytest.raises(ModuleNotFoundError):
        run(["operator"])


def test_a_package_that_every_installation_has_is_not_put_down_to_an_extra(monkeypatch):
    def absent(_module):
        raise ModuleNotFoundError("No module named 'yaml'", name="yaml")

    monkeypatch.setattr("anabranch.cli.lazy.importlib.import_module", absent)
    with pytest.raises(ModuleNotFoundError):
        run(["baseline"])


def test_completion_stays_silent_where_a_package_is_missing(monkeypatch):
    def absent(_module):
        raise ModuleNotFoundError("No module named 'kopf'", name="kopf")

    monkeypatch.setattr("anabranch.cli.lazy.importlib.import_module", absent)
    assert "--dsn" not in completion.offer(cli, ["operator", "--"])


def test_a_known_error_is_two_lines_on_standard_error_and_exit_code_one(probe, capsys):
    def fail():
        raise NotFoundError("There is no such thing.", hint="Make one.")

    probe(fail)
    assert run(["probe"]) == 1
    assert capsys.readouterr() == ("", "Error: There is no such thing.\nMake one.\n")


def test_an_exit_code_that_a_command_asks_for_leaves_the_process(probe):
    def leave():
        raise click.exceptions.Exit(7)

    probe(leave)
    assert run(["probe"]) == 7


def test_a_file_that_cannot_be_written_is_named(probe, capsys):
    probe(lambda: open("/nonexistent/file", "w"))  # noqa: PTH123, SIM115
    assert run(["probe"]) == 1
    assert capsys.readouterr().err == "Error: /nonexistent/file: No such file or directory.\n"


def test_an_interruption_is_exit_code_130(probe, capsys):
    def interrupt():
        raise KeyboardInterrupt

    probe(interrupt)
    assert run(["probe"]) == 130
    assert "Interrupted." in capsys.readouterr().err


@pytest.mark.parametrize("line", ["bogus", "baseline bogus", "baseline list -o xml", "job review j --reject c", ""])
def test_a_line_that_cannot_be_understood_is_exit_code_two(line, capsys):
    assert run(line.split()) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "Usage: anabranch" in err


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m anabranch.cli.main manifests | head -n 1"
    done = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


def test_as_a_plugin_of_kubectl_it_shows_what_the_person_called(capsys):
    assert run(["baseline", "rollback", "--help"], program="kubectl anabranch") == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl anabranch baseline rollback")


def test_kubectl_is_offered_commands_with_their_explanations_and_no_files():
    lines = completion.offer(cli, ["bas"]).splitlines()
    assert lines == [f"baseline\t{main.COMMANDS['baseline'][1]}", ":4"]


def test_kubectl_is_offered_files_where_a_file_is_wanted():
    assert completion.offer(cli, ["import", ""]) == ":0"


def test_kubectl_is_offered_options_and_choices():
    assert "--all-namespaces\tOf every namespace." in completion.offer(cli, ["baseline", "list", "--a"])
    assert completion.offer(cli, ["baseline", "list", "-o", "j"]).splitlines() == ["json", ":4"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_this_program(shell, capsys):
    assert run(["completion", shell]) == 0
    assert f"_ANABRANCH_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_a_group_completes_its_own_commands_and_the_imported_ones_alike():
    here = click.Command("here", help="Here.", callback=lambda: None)
    group = LazyGroup("g", lazy={"there": ("nowhere:command", "There.")}, commands=[here])
    assert group.list_commands(click.Context(group)) == ["here", "there"]
    assert completion.offer(group, [""]).splitlines() == ["here\tHere.", "there\tThere.", ":4"]


def test_no_error_can_move_a_cursor_or_turn_text(monkeypatch, capsys):
    def refused(*_, **__):
        raise NotFoundError("There is no \x1b[2Krecord\u202e.", hint="Ask\x9b2J again.\nLater.")

    monkeypatch.setattr(main.cli, "main", refused)
    assert run(["baseline", "list"]) == 1
    assert capsys.readouterr().err == "Error: There is no \\u001b[2Krecord\\u202e.\nAsk\\u009b2J again.\nLater.\n"
