"""How a command reaches cluster and API: what was given, and what is taken where nothing was."""

import click
import pytest
from click.testing import CliRunner

from anabranch.cli import connection as connections
from anabranch.cli.calls import call
from anabranch.cli.connection import Connection, cluster_options, connection_options
from anabranch.cli.kubectl import Kubectl
from anabranch.model.errors import InvalidInputError, UnauthenticatedError
from anabranch.model.requests import BranchRequest


class FakeKubectl(Kubectl):
    def __init__(self, namespace=None):
        super().__init__(namespace)
        object.__setattr__(self, "minted", [])

    def run(self, *arguments):
        if arguments[:2] == ("config", "view"):
            return "from-context"
        self.minted.append(arguments)
        return "minted\n"


def parsed(*arguments, options=connection_options, **environment):
    """The connection that a command line and an environment make."""
    found = []

    @click.command()
    @options
    def probe(connection):
        found.append(connection)

    result = CliRunner().invoke(probe, arguments, env=environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_kubectls_options_are_passed_on():
    made = parsed("-n", "team", "--context", "prod", "--kubeconfig", "/k")
    assert (made.kubectl.namespace, made.kubectl.options) == ("team", ("--context=prod", "--kubeconfig=/k"))


def test_the_api_is_taken_from_the_environment_and_the_command_line_wins():
    environment = {"ANABRANCH_URL": "http://env", "ANABRANCH_TOKEN": "env", "ANABRANCH_AUDIENCE": "a"}
    assert (parsed(**environment).url, parsed(**environment).token) == ("http://env", "env")
    made = parsed("--url", "http://line", "--token", "line", **environment)
    assert (made.url, made.token, made.minted_audience()) == ("http://line", "line", "a")
    assert parsed().minted_audience() == "anabranch.anabranch-system"


def test_a_token_is_not_in_what_a_traceback_shows():
    assert "secret" not in repr(parsed("--token", "secret"))


def test_a_command_that_goes_by_kubectl_alone_takes_no_options_of_the_api():
    made = parsed("-n", "team", options=cluster_options, ANABRANCH_URL="http://env")
    assert (made.kubectl.namespace, made.url) == ("team", None)
    result = CliRunner().invoke(click.Command("c", params=cluster_options(click.Command("x")).params), ["--url", "u"])
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("given", "configured"),
    [
        ({}, False),
        ({"url": "u"}, False),
        ({"token": "t"}, False),
        ({"url": "u", "token": "t"}, True),
        ({"url": "u", "service_account": "s"}, True),
    ],
)
def test_the_api_can_be_called_with_an_address_and_a_token(given, configured):
    assert Connection(kubectl=FakeKubectl(), **given).configured is configured


def test_what_is_missing_is_said_with_how_to_give_it():
    with pytest.raises(InvalidInputError, match="ANABRANCH_URL"):
        Connection(kubectl=FakeKubectl()).client()
    with pytest.raises(UnauthenticatedError, match="--service-account"):
        Connection(kubectl=FakeKubectl(), url="http://x").client()


@pytest.mark.parametrize(("account", "namespace"), [("scout", "from-context"), ("agents/scout", "agents")])
def test_a_token_is_minted_for_the_api_and_the_accounts_own_namespace(account, namespace):
    kubectl = FakeKubectl()
    Connection(kubectl=kubectl, url="http://x", service_account=account, audience="a").client()
    assert kubectl.minted == [("create", "token", "scout", f"--namespace={namespace}", "--audience=a")]


def test_in_a_pod_the_namespace_is_the_pods_unless_one_was_given(monkeypatch, tmp_path):
    file = tmp_path / "namespace"
    file.write_text("pods-own\n")
    monkeypatch.setattr(connections, "POD_NAMESPACE", file)
    assert Connection(kubectl=FakeKubectl()).namespace == "pods-own"
    assert Connection(kubectl=FakeKubectl("given")).namespace == "given"
    monkeypatch.setattr(connections, "POD_NAMESPACE", tmp_path / "none")
    assert Connection(kubectl=FakeKubectl()).namespace == "from-context"


def test_what_can_be_no_request_is_an_error_that_names_the_field():
    async def ask(_client, _namespace):
        return BranchRequest(name="Not A Name", baseline="b", generation=0)

    with pytest.raises(InvalidInputError) as caught:
        call(Connection(kubectl=FakeKubectl(), url="http://x", token="t"), ask)
    assert caught.value.detail.startswith("name: is no name of an object: ")
    assert caught.value.detail.endswith("; generation: must be at least 1.")
