"""What an installation applies, and how it is noticed that reviews are not guarded."""

from __future__ import annotations

import copy

import pytest

from anabranch.manifests import API_ACCOUNT, AUDIENCE_ANNOTATION, default_audience, gaps, install


def test_the_system_namespace_is_put_in_wherever_it_stands():
    objects = install(namespace="memory")
    assert "anabranch-system" not in str(objects)
    assert [item["metadata"]["name"] for item in objects if item["kind"] == "Namespace"] == ["memory"]
    placed = {item["metadata"]["namespace"] for item in objects if "namespace" in item["metadata"]}
    assert placed == {"memory"}
    assert {subject["namespace"] for item in objects for subject in item.get("subjects", ())} == {"memory"}


def test_two_installations_differ_in_nothing_but_the_namespace():
    assert str(install(namespace="anabranch-system")).replace("anabranch-system", "x") == str(install(namespace="x"))


@pytest.mark.parametrize(("given", "written"), [(None, "anabranch.memory"), ("tokens.example", "tokens.example")])
def test_people_find_the_audience_on_the_apis_account(given, written):
    account = next(
        item
        for item in install(namespace="memory", audience=given)
        if item["kind"] == "ServiceAccount" and item["metadata"]["name"] == API_ACCOUNT
    )
    assert account["metadata"]["annotations"] == {AUDIENCE_ANNOTATION: written}
    assert default_audience("memory") == "anabranch.memory"


def test_no_role_holds_a_wildcard_or_reaches_secrets():
    for item in install():
        for rule in item.get("rules", ()):
            assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}, item["metadata"]["name"]
            assert not {"secrets", "serviceaccounts/token"} & set(rule["resources"])


def test_every_object_is_marked_as_part_of_the_installation_and_applied_after_what_it_needs():
    objects = install()
    assert all(item["metadata"]["labels"]["app.kubernetes.io/name"] == "anabranch" for item in objects)
    names = [(item["kind"], item["metadata"]["name"]) for item in objects]
    assert len(set(names)) == len(names)
    assert names[0][0] == "Namespace"
    for index, item in enumerate(objects):
        if "roleRef" in item:
            assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in names[:index]


# The guard


@pytest.fixture
def live():
    """Policies and bindings as a cluster has them."""
    objects = copy.deepcopy(install())
    return (
        {item["metadata"]["name"]: item for item in objects if item["kind"] == "ValidatingAdmissionPolicy"},
        {item["metadata"]["name"]: item for item in objects if item["kind"] == "ValidatingAdmissionPolicyBinding"},
    )


def found(live):
    policies, bindings = live
    return gaps(policies.values(), bindings.values())


NAME = "anabranch-job-reviews"


def test_the_whole_guard_has_no_gaps(live):
    assert found(live) == []


@pytest.mark.parametrize(
    "name",
    [
        "anabranch-job-reviews",
        "anabranch-job-origin",
        "anabranch-baseline-policy",
        "anabranch-baseline-adoption",
        "anabranch-baseline-store",
    ],
)
def test_an_absent_policy_is_a_gap(live, name):
    policies, _ = live
    del policies[name]
    assert found(live) == [f"The ValidatingAdmissionPolicy {name} is absent."]


@pytest.mark.parametrize(
    "change",
    [
        {"failurePolicy": "Ignore"},
        {"validations": [{"expression": "true"}]},
        {"matchConditions": [{"name": "never", "expression": "false"}]},
        {"variables": []},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_altered_policy_is_a_gap(live, change):
    policies, _ = live
    policies[NAME]["spec"] |= change
    assert found(live) == [f"The ValidatingAdmissionPolicy {NAME} is not the one of this release."]


def test_a_policy_narrowed_to_some_namespaces_is_a_gap(live):
    policies, _ = live
    policies[NAME]["spec"]["matchConstraints"]["namespaceSelector"] = {"matchLabels": {"guarded": "yes"}}
    assert found(live) == [f"The ValidatingAdmissionPolicy {NAME} is not the one of this release."]


@pytest.mark.parametrize(
    "change",
    [
        {"validationActions": ["Audit", "Warn"]},
        {"matchResources": {"namespaceSelector": {"matchLabels": {"guarded": "yes"}}}},
        {"paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}},
        {"policyName": "another"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_binding_that_does_not_deny_everywhere_is_a_gap(live, change):
    _, bindings = live
    bindings[NAME]["spec"] |= change
    assert found(live) == [f"No ValidatingAdmissionPolicyBinding applies {NAME} with Deny to all namespaces."]


def test_a_binding_of_another_name_will_do(live):
    _, bindings = live
    bindings["ours"] = bindings.pop(NAME)
    bindings["weaker"] = copy.deepcopy(bindings["ours"])
    bindings["weaker"]["spec"]["validationActions"] = ["Audit"]
    assert found(live) == []
