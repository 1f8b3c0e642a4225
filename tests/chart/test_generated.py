"""The chart installs what `anabranch manifests` prints, and says of itself what the code says."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.chart.rendering import CERT_MANAGER, CHART, CLOUDNATIVEPG, CNPG, EXISTING, NAMESPACE, TRIAL

from anabranch import manifests
from anabranch.chart import generate
from anabranch.chart.values import ChartValues

ROOT = Path(__file__).parents[2]
OURS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
ADDED = {
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
}


def bare(item):
    """An object without the labels that say who installed it."""
    metadata = item["metadata"]
    labels = {name: value for name, value in metadata.get("labels", {}).items() if name not in ADDED}
    kept = {name: metadata[name] for name in ("name", "namespace") if name in metadata}
    return {**item, "metadata": {**kept, "labels": labels}}


@pytest.mark.parametrize("path", sorted(generate.files()), ids=str)
def test_a_generated_file_is_what_the_code_says(path):
    assert (ROOT / path).read_text(encoding="utf-8") == generate.files()[path]


def test_roles_and_policies_are_those_that_the_command_prints(render):
    rendered = render()
    wanted = [bare(each) for each in manifests.install(namespace=NAMESPACE) if each["kind"] in OURS + POLICIES]
    found = [bare(each) for kind in OURS + POLICIES for each in rendered.of(kind)]
    hooks = [each for each in found if each["metadata"]["name"] == "anabranch-uninstall"]
    assert len(hooks) == len(OURS)
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(set(names)) == len(names) == len(wanted) + len(hooks)
    for each in wanted:
        assert each in found


def test_the_review_guard_of_a_release_has_no_gaps(render):
    rendered = render()
    assert manifests.gaps(*(rendered.of(kind) for kind in POLICIES)) == []


def test_the_accounts_are_those_that_the_roles_are_bound_to(render):
    rendered = render({**EXISTING, "audience": "tokens.example"})
    assert rendered.names("ServiceAccount") >= {manifests.API_ACCOUNT, manifests.OPERATOR_ACCOUNT}
    api = rendered.get("ServiceAccount", manifests.API_ACCOUNT)
    assert api["metadata"]["annotations"] == {manifests.AUDIENCE_ANNOTATION: "tokens.example"}
    assert rendered.env("anabranch-api")["ANABRANCH_AUDIENCE"] == "tokens.example"
    assert render().env("anabranch-api")["ANABRANCH_AUDIENCE"] == manifests.default_audience(NAMESPACE)


def test_the_definitions_are_those_of_the_models_and_stay_at_uninstall(render):
    found = {each["metadata"]["name"]: each for each in render().of("CustomResourceDefinition")}
    assert {name: each["spec"] for name, each in found.items()} == {
        each["metadata"]["name"]: each["spec"] for each in manifests.crds()
    }
    for each in found.values():
        assert each["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_definitions_can_be_left_out_and_can_go_with_the_release(render):
    assert not render({**EXISTING, "crds": {"enabled": False}}).of("CustomResourceDefinition")
    for each in render({**EXISTING, "crds": {"keep": False}}).of("CustomResourceDefinition"):
        assert "annotations" not in each["metadata"]


def test_the_chart_has_the_programs_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_the_default_values_are_the_models_and_fit_their_schema():
    written = yaml.safe_load((CHART / "values.yaml").read_text())
    assert ChartValues.model_validate(written) == ChartValues()


def test_every_value_is_explained_and_no_mapping_of_ours_takes_unknown_names():
    schema = json.loads((CHART / "values.schema.json").read_text())
    page = (ROOT / "docs/values.md").read_text()
    for name, definition in {"": schema, **schema["$defs"]}.items():
        assert definition["additionalProperties"] is False, name
        for member, described in definition["properties"].items():
            reference = described.get("$ref", "").removeprefix("#/$defs/")
            assert described.get("description") or schema["$defs"][reference]["description"], (name, member)
            if member != "global":
                assert member in page


@pytest.mark.parametrize(
    ("values", "apis"),
    [(EXISTING, ()), (TRIAL, ()), (CLOUDNATIVEPG, (CNPG, CERT_MANAGER))],
    ids=["existing", "trial", "cloudnativepg"],
)
def test_helm_3_and_helm_4_render_the_same(helm, helm3, values, apis):
    drawn = {
        "api": {"cursorKeys": {"existingSecret": "keys"}, "tls": {"mode": "certManager"}},
        "generateSecrets": False,
    }
    ours = helm.render({**values, **drawn}, apis=apis)
    theirs = helm3.render({**values, **drawn}, apis=apis)
    assert sorted(ours.objects, key=str) == sorted(theirs.objects, key=str)


def test_helm_lint_finds_nothing(helm):
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART), "--values=-", stdin=json.dumps(EXISTING))
