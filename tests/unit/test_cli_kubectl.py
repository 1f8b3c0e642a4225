"""kubectl as the person's way to the cluster: what it is called with, and what its words mean."""

import json
from pathlib import Path

import pytest

from anabranch.cli import kubectl as kubectl_module
from anabranch.cli.kubectl import Kubectl, error_of
from anabranch.model.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)

DENIED = (
    'Error from server (Forbidden): consolidationjobs.anabranch.dev "j" is forbidden: ValidatingAdmissionPolicy '
    "'anabranch-job-reviews' with binding 'anabranch-job-reviews' denied request: spec.reviews: you lack a verb"
)
OWNED = """\
error: Apply failed with 1 conflict: conflict with "kubectl-patch" using anabranch.dev/v1alpha1: .spec.pin
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
  command with the `--force-conflicts` flag."""
REFUSED = "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"


@pytest.fixture
def fake(tmp_path):
    """Makes a kubectl that notes its arguments and standard input, and answers as told."""

    def make(*, stdout="", stderr="", code=0, **settings):
        script = tmp_path / "kubectl"
        (tmp_path / "out").write_text(stdout)
        (tmp_path / "err").write_text(stderr)
        script.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/args\ncat > {tmp_path}/in\n'
            f"cat {tmp_path}/out; cat {tmp_path}/err >&2\nexit {code}\n"
        )
        script.chmod(0o755)
        return Kubectl(path=str(script), **settings)

    return make


def called(tmp_path):
    return (tmp_path / "args").read_text().splitlines()


@pytest.mark.parametrize(
    ("words", "kind", "detail"),
    [
        (
            'Error from server (NotFound): baselines.anabranch.dev "nope" not found',
            NotFoundError,
            'baselines.anabranch.dev "nope" not found',
        ),
        (
            'error: failed to create token: serviceaccounts "nope" not found',
            NotFoundError,
            'failed to create token: serviceaccounts "nope" not found',
        ),
        (
            'Error from server (Forbidden): baselines.anabranch.dev is forbidden: User "n" cannot list resource',
            ForbiddenError,
            'baselines.anabranch.dev is forbidden: User "n" cannot list resource',
        ),
        (DENIED, ForbiddenError, "spec.reviews: you lack a verb"),
        (
            'Error from server (Conflict): Operation cannot be fulfilled on baselines.anabranch.dev "handbook"',
            ConflictError,
            'Operation cannot be fulfilled on baselines.anabranch.dev "handbook"',
        ),
        (OWNED, ConflictError, OWNED.splitlines()[0].removeprefix("error: ")),
        (
            "error: You must be logged in to the server (Unauthorized)",
            UnauthenticatedError,
            "You must be logged in to the server (Unauthorized)",
        ),
        (
            'The Baseline "b" is invalid: spec: Invalid value: spec.pin and spec.restore exclude each other',
            InvalidInputError,
            'The Baseline "b" is invalid: spec: Invalid value: spec.pin and spec.restore exclude each other',
        ),
        (
            'error: the server doesn\'t have a resource type "baselines"',
            NotFoundError,
            'the server doesn\'t have a resource type "baselines"',
        ),
        (
            f'E1130 00:04:43.245488    3653 memcache.go:265] "Unhandled Error" err="dial tcp: refused"\n{REFUSED}\n',
            UnavailableError,
            REFUSED,
        ),
        ("error: stat /nonexistent: no such file", UnavailableError, "stat /nonexistent: no such file"),
        ("", UnavailableError, "kubectl failed, and said nothing."),
    ],
)
def test_what_kubectl_says_becomes_an_error_of_its_kind_in_its_words(words, kind, detail):
    error = error_of(words)
    assert (type(error), error.detail) == (kind, detail)
    assert error.hint


def test_an_installation_that_is_not_there_is_not_taken_for_a_wrong_name():
    assert "anabranch doctor" in error_of('error: the server doesn\'t have a resource type "baselines"').hint


def test_the_persons_options_come_first(fake, tmp_path):
    fake(namespace="team", options=("--context=prod",)).run("get", "nodes")
    assert called(tmp_path) == ["--context=prod", "--namespace", "team", "get", "nodes"]


def test_one_object_comes_with_its_managed_fields(fake, tmp_path):
    """kubectl hides them otherwise, and a rollback would not see who owns the spec."""
    assert fake(stdout='{"kind": "Baseline"}').get("baselines", "-b") == {"kind": "Baseline"}
    assert called(tmp_path) == ["get", "baselines.anabranch.dev", "--output=json", "--show-managed-fields", "--", "-b"]


def test_a_list_is_its_items(fake, tmp_path):
    assert fake(stdout='{"items": [1]}').get("baselines", everywhere=True) == [1]
    assert called(tmp_path)[-1] == "--all-namespaces"


def test_a_manifest_is_applied_on_the_servers_side_as_a_manager_of_its_own(fake, tmp_path):
    fake().apply({"kind": "Baseline"}, manager="anabranch-rollback")
    assert called(tmp_path) == ["apply", "--server-side", "--field-manager=anabranch-rollback", "--filename=-"]
    assert json.loads((tmp_path / "in").read_text()) == {"kind": "Baseline"}


def test_a_failure_is_raised_in_kubectls_words(fake):
    with pytest.raises(ForbiddenError, match="no way"):
        fake(stderr="Error from server (Forbidden): no way", code=1).run("get", "nodes")


def test_names_are_those_that_kubectl_lists(fake):
    assert fake(stdout="baseline.anabranch.dev/a\nbaseline.anabranch.dev/b\n").names("baselines") == ["a", "b"]


def test_the_namespace_is_the_contexts_where_none_was_given(fake):
    assert fake(stdout="team-a\n").current_namespace == "team-a"
    assert fake(stdout="\n").current_namespace == "default"
    assert fake(namespace="given").current_namespace == "given"


def test_a_kubectl_that_hangs_is_given_up(fake, monkeypatch):
    monkeypatch.setattr(kubectl_module, "TIMEOUT", 0.2)
    kubectl = fake()
    Path(kubectl.path).write_text("#!/bin/sh\nexec sleep 30\n")
    with pytest.raises(UnavailableError, match="did not answer within"):
        kubectl.run("get", "nodes")


def test_a_missing_kubectl_is_said_to_be_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="not on PATH"):
        Kubectl().run("get", "nodes")
