"""Who sets a Baseline's review policy: whoever could set mode Automatic would need no reviewer."""

from __future__ import annotations

import json

import pytest

from anabranch.devcluster import installation
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.stack import TEMPORARY
from anabranch.manifests import crds, gaps, install

pytestmark = pytest.mark.long

BASELINES = "* baselines,baselines/status"
LACKS = "you lack the verb update on baselines/policy"
DEFAULTS = {
    "mode": "Manual",
    "requireSources": True,
    "autoAccept": {"scopes": [], "sourceKinds": [], "agents": []},
    "minReviewers": 1,
    "forbidSelfReview": True,
}
OTHERS = [
    {"mode": "Automatic"},
    {"requireSources": False},
    {"minReviewers": 2},
    {"forbidSelfReview": False},
    {"autoAccept": {"scopes": ["shared"]}},
    {"autoAccept": {"sourceKinds": ["git"]}},
    {"autoAccept": {"agents": ["docs-agent"]}},
    {"proposals": {"model": "house"}},
]


def baseline(**spec):
    return {
        "apiVersion": "anabranch.dev/v1alpha1",
        "kind": "Baseline",
        "metadata": {"name": "handbook"},
        "spec": spec,
    }


@pytest.fixture
def editor(person):
    return person("editor", BASELINES)


@pytest.fixture
def publisher(person):
    return person("publisher", "anabranch-publisher")


def create(who, body):
    who.kubectl("create", "-f-", stdin=json.dumps(body))


def patch(who, spec, *flags):
    who.kubectl("patch", "bl", "handbook", "--type=merge", f"-p={json.dumps({'spec': spec})}", *flags)


def apply(who, body):
    flags = ("--server-side", "--field-manager=gitops", "--force-conflicts")
    who.kubectl("apply", *flags, "--filename=-", stdin=json.dumps(body))


@pytest.mark.parametrize("spec", [{}, {"review": {}}, {"review": {"mode": "Manual"}}, {"review": DEFAULTS}], ids=str)
def test_anyone_who_may_create_baselines_creates_one_with_the_default_policy(editor, spec):
    create(editor, baseline(**spec))
    # And works on all else of it, by every door.
    patch(editor, {"pin": {"generation": 1}})
    apply(editor, baseline(**spec, suspend=True))
    editor.kubectl("label", "bl", "handbook", "seen=yes")
    patch(editor, {"review": None})
    stored = editor.get("bl", "handbook")
    assert (stored["spec"]["suspend"], stored["metadata"]["labels"]["seen"]) == (True, "yes")
    assert stored["spec"]["review"]["mode"] == "Manual"


@pytest.mark.parametrize("review", OTHERS, ids=str)
def test_another_policy_needs_the_grant_at_creation_and_later(editor, publisher, review):
    with pytest.raises(DevclusterError, match=LACKS):
        create(editor, baseline(review=review))
    with pytest.raises(DevclusterError, match=LACKS):
        apply(editor, baseline(review=review))
    create(editor, baseline())
    with pytest.raises(DevclusterError, match=LACKS):
        patch(editor, {"review": review})
    with pytest.raises(DevclusterError, match=LACKS):
        apply(editor, baseline(review=review))
    stored = editor.get("bl", "handbook")
    stored["spec"]["review"] |= review
    with pytest.raises(DevclusterError, match=LACKS):
        editor.kubectl("replace", "-f-", stdin=json.dumps(stored))
    body = json.dumps({"spec": {"review": review}, "status": {"openConflicts": 1}})
    editor.kubectl("patch", "bl", "handbook", "--subresource=status", "--type=merge", f"-p={body}")
    assert editor.get("bl", "handbook")["spec"]["review"] == DEFAULTS

    patch(publisher, {"review": review})
    with pytest.raises(DevclusterError, match=LACKS):
        patch(editor, {"review": None})  # back to the default is a change too
    patch(editor, {"suspend": True})
    assert editor.get("bl", "handbook")["spec"]["review"] != DEFAULTS


def test_a_gitops_controller_with_the_publishers_role_applies_policy_again_and_again(publisher):
    body = baseline(review={"mode": "Automatic", "autoAccept": {"scopes": ["shared"]}})
    apply(publisher, body)
    apply(publisher, body)  # the first one after creation is written, whatever it says
    before = publisher.get("bl", "handbook")["metadata"]["resourceVersion"]
    apply(publisher, body)
    assert publisher.get("bl", "handbook")["metadata"]["resourceVersion"] == before


# Is the guard there?


def read_gaps(cluster):
    return gaps(
        cluster.get("validatingadmissionpolicies")["items"], cluster.get("validatingadmissionpolicybindings")["items"]
    )


def test_the_guard_is_found_whole_on_a_real_api_server(installed):
    assert read_gaps(installed) == []


def test_installing_again_changes_nothing(installed):
    kinds = "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings"

    def versions():
        items = installed.get(kinds, "--selector=app.kubernetes.io/name=anabranch")["items"]
        return {(item["kind"], item["metadata"]["name"]): item["metadata"]["resourceVersion"] for item in items}

    def install_again():
        installation.install(installed, owner=TEMPORARY, definitions=crds(), others=install())

    install_again()  # the API server writes the first one after creation, whatever it says
    before = versions()
    assert len(before) > 10
    install_again()
    assert versions() == before


def test_the_api_server_finds_no_fault_with_the_expressions(installed):
    for policy in installed.get("validatingadmissionpolicies", "--selector=app.kubernetes.io/name=anabranch")["items"]:
        assert not policy["status"].get("typeChecking", {}).get("expressionWarnings"), policy["metadata"]["name"]
