"""Who takes up a line that another namespace of the same name left behind: nobody without being allowed to."""

from __future__ import annotations

import json

import pytest

from anabranch.devcluster.errors import DevclusterError

BASELINES = "create,get,patch,update baselines,baselines/status"
LACKS = "you lack the verb update on baselines/adopt"
LINE, OTHER = f"ln_{'0' * 26}", f"ln_{'1' * 26}"


def baseline(**spec):
    metadata = {"name": "handbook"}
    return json.dumps({"apiVersion": "anabranch.dev/v1alpha1", "kind": "Baseline", "metadata": metadata, "spec": spec})


def adopting(line):
    return {"adopt": {"lineId": line}}


def patch(who, spec, *flags):
    who.kubectl("patch", "bl", "handbook", "--type=merge", f"-p={json.dumps({'spec': spec})}", *flags)


def apply(who, body):
    who.kubectl("apply", "--server-side", "--field-manager=gitops", "--force-conflicts", "--filename=-", stdin=body)


@pytest.fixture
def editor(person):
    return person("editor", BASELINES)


@pytest.fixture
def adopter(person):
    return person("adopter", BASELINES, "update baselines/adopt")


def test_naming_a_line_takes_the_grant_by_every_door(editor, adopter):
    with pytest.raises(DevclusterError, match=LACKS):
        editor.kubectl("create", "-f-", stdin=baseline(**adopting(LINE)))
    with pytest.raises(DevclusterError, match=LACKS):
        apply(editor, baseline(**adopting(LINE)))
    editor.kubectl("create", "-f-", stdin=baseline())
    with pytest.raises(DevclusterError, match=LACKS):
        patch(editor, adopting(LINE))
    with pytest.raises(DevclusterError, match=LACKS):
        apply(editor, baseline(**adopting(LINE)))
    stored = editor.get("bl", "handbook")
    stored["spec"] |= adopting(LINE)
    with pytest.raises(DevclusterError, match=LACKS):
        editor.kubectl("replace", "-f-", stdin=json.dumps(stored))
    patch(editor, adopting(LINE), "--subresource=status")
    assert "adopt" not in editor.get("bl", "handbook")["spec"]

    patch(adopter, adopting(LINE))
    assert adopter.get("bl", "handbook")["spec"]["adopt"] == {"lineId": LINE}


def test_what_stands_there_already_is_nobodys_concern_and_may_be_taken_out(editor, adopter):
    adopter.kubectl("create", "-f-", stdin=baseline(**adopting(LINE)))
    patch(editor, {"suspend": True})
    apply(editor, baseline(**adopting(LINE)))
    editor.kubectl("label", "bl", "handbook", "seen=yes")
    with pytest.raises(DevclusterError, match=LACKS):
        patch(editor, adopting(OTHER))
    patch(editor, {"adopt": None})
    with pytest.raises(DevclusterError, match=LACKS):
        patch(editor, adopting(LINE))


def test_the_publishers_role_does_not_hand_out_what_others_left(person):
    publisher = person("publisher", "anabranch-publisher")
    with pytest.raises(DevclusterError, match=LACKS):
        publisher.kubectl("create", "-f-", stdin=baseline(**adopting(LINE)))


@pytest.mark.parametrize("line", ["ln_short", "br_" + "0" * 26, "", f"{LINE}x"])
def test_what_is_no_line_is_refused_at_once(adopter, line):
    with pytest.raises(DevclusterError, match=r"spec\.adopt\.lineId"):
        adopter.kubectl("create", "-f-", stdin=baseline(**adopting(line)))


def test_a_deletion_policy_is_one_of_two(adopter):
    with pytest.raises(DevclusterError, match=r"spec\.deletionPolicy: Unsupported value"):
        adopter.kubectl("create", "-f-", stdin=baseline(deletionPolicy="Orphan"))
    adopter.kubectl("create", "-f-", stdin=baseline())
    assert adopter.get("bl", "handbook")["spec"]["deletionPolicy"] == "Retain"
