"""Who places lines in another store than the default one: nobody without being allowed to."""

from __future__ import annotations

import json

import pytest

from anabranch.devcluster.errors import DevclusterError

BASELINES = "create,get,patch,update,delete baselines"


def lacks(store):
    return f"you lack the verb use on stores {store} in this namespace"


def baseline(name="handbook", **spec):
    metadata = {"name": name}
    return json.dumps({"apiVersion": "anabranch.dev/v1alpha1", "kind": "Baseline", "metadata": metadata, "spec": spec})


def apply(who, body, *flags):
    who.kubectl("apply", "--server-side", "--field-manager=gitops", "--filename=-", *flags, stdin=body)


def placer(person, installed, namespace, name, *stores):
    """Somebody who may make Baselines, and use some stores by name."""
    made = person(name, BASELINES)
    version, metadata = "rbac.authorization.k8s.io/v1", {"name": f"stores-of-{name}", "namespace": namespace}
    rule = {"apiGroups": ["anabranch.dev"], "resources": ["stores"], "resourceNames": list(stores), "verbs": ["use"]}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": metadata["name"]}
    binding = {"apiVersion": version, "kind": "RoleBinding", "metadata": metadata, "roleRef": role}
    installed.apply(
        [
            {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]},
            {**binding, "subjects": [subject]},
        ]
    )
    return made


def test_placing_a_line_in_a_store_takes_the_grant_by_every_door(person):
    editor = person("editor", BASELINES)
    with pytest.raises(DevclusterError, match=lacks("east")):
        editor.kubectl("create", "-f-", stdin=baseline(store="east"))
    with pytest.raises(DevclusterError, match=lacks("east")):
        apply(editor, baseline(store="east"))
    with pytest.raises(DevclusterError, match=lacks("east")):
        apply(editor, baseline(store="east"), "--dry-run=server")
    editor.kubectl("create", "-f-", stdin=baseline())
    editor.kubectl("create", "-f-", stdin=baseline("second", store="default"))
    assert editor.get("bl", "handbook")["spec"]["store"] == "default", "the default one needs nothing"


def test_a_grant_is_for_one_store_in_one_namespace(person, installed, namespace):
    easterner = placer(person, installed, namespace, "easterner", "east")
    easterner.kubectl("create", "-f-", stdin=baseline(store="east"))
    with pytest.raises(DevclusterError, match=lacks("west")):
        easterner.kubectl("create", "-f-", stdin=baseline("second", store="west"))
    with pytest.raises(DevclusterError, match="forbidden"):
        easterner.kubectl("create", "-f-", "--namespace=default", stdin=baseline("third", store="east"))


def test_a_line_that_lies_there_is_changed_by_whoever_may_change_it(person, installed, namespace):
    easterner = placer(person, installed, namespace, "easterner", "east")
    easterner.kubectl("create", "-f-", stdin=baseline(store="east"))
    editor = person("editor", BASELINES)
    editor.kubectl("patch", "bl", "handbook", "--type=merge", '-p={"spec":{"suspend":true}}')
    apply(editor, baseline(store="east", suspend=False), "--force-conflicts")
    editor.kubectl("delete", "bl", "handbook", "--wait=false")
    with pytest.raises(DevclusterError, match=lacks("east")):
        editor.kubectl("create", "-f-", stdin=baseline("handbook", store="east"))


def test_the_publishers_role_uses_no_store_by_itself(person):
    publisher = person("publisher", "anabranch-publisher")
    with pytest.raises(DevclusterError, match=lacks("east")):
        publisher.kubectl("create", "-f-", stdin=baseline(store="east"))
