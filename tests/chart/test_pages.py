"""What the pages tell an agent's author is where the chart puts it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.chart.rendering import EXISTING

from anabranch.manifests import DEFAULT_NAMESPACE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rendered(render):
    return render(EXISTING, namespace=DEFAULT_NAMESPACE)


def test_every_page_calls_the_api_by_the_address_of_its_service(rendered):
    address = rendered.env("anabranch-test")["ANABRANCH_URL"]
    told = {
        (page.name, found)
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
        for found in re.findall(r"https?://anabranch-api[a-z0-9.:-]*", page.read_text(encoding="utf-8"))
    }
    assert {name for name, _ in told} >= {"install.md", "http.md", "mcp.md"}
    assert {found for _, found in told} == {address}


def test_the_agents_pod_of_the_install_page_is_told_what_the_releases_own_test_is(rendered):
    (text,) = re.findall(
        r"```yaml\n(apiVersion: v1\nkind: Pod\n.*?)```", (ROOT / "docs/install.md").read_text(), re.DOTALL
    )
    pod = yaml.safe_load(text)["spec"]
    (container,) = pod["containers"]
    told = {entry["name"]: entry["value"] for entry in container["env"]}
    (mount,) = container["volumeMounts"]
    token, authority = pod["volumes"][0]["projected"]["sources"]
    (wanted,) = next(each for each in rendered.pod("anabranch-test")["volumes"] if each["name"] == "token")[
        "projected"
    ]["sources"]
    assert told["ANABRANCH_URL"] == rendered.env("anabranch-test")["ANABRANCH_URL"]
    assert told["ANABRANCH_TOKEN_FILE"] == f"{mount['mountPath']}/{token['serviceAccountToken']['path']}"
    assert token["serviceAccountToken"]["audience"] == wanted["serviceAccountToken"]["audience"]
    assert told["SSL_CERT_FILE"] == f"{mount['mountPath']}/ca.crt"
    assert authority == {"configMap": {"name": "anabranch-ca"}}
    assert told.keys() == rendered.env("anabranch-test").keys()
