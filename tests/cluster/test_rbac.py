"""What each account and each role may do, as the API server's own authorizer sees it."""

from __future__ import annotations

import json

import pytest

from anabranch.devcluster import accounts
from anabranch.devcluster.cluster import Cluster
from anabranch.devcluster.errors import DevclusterError
from anabranch.manifests import API_ACCOUNT, DEFAULT_NAMESPACE, LEASE, OPERATOR_ACCOUNT

GROUP = "anabranch.dev"
# Every row of the grants' table that Kubernetes' own objects do not answer, as (resource, verb).
VIRTUAL = {
    ("baselines/records", "get"),
    ("baselines/events", "watch"),
    ("baselines/export", "get"),
    ("baselines/archives", "create"),
    ("baselines/fork", "create"),
    ("baselines/policy", "update"),
    ("baselines/adopt", "update"),
    ("stores", "use"),
    ("branches/data", "update"),
    ("scopes", "read"),
    ("scopes", "write"),
    ("scopes", "export"),
    ("scopes", "tombstone"),
    ("baselines/retractions", "create"),
    ("consolidationjobs/origin", "create"),
    ("consolidationjobs/review", "get"),
    ("consolidationjobs/review", "update"),
    ("agents", "use"),
    ("agents", "delegate"),
    ("agents/memory", "update"),
    ("exchanges", "create"),
}
WRITES = {
    (kind, verb) for kind in ("baselines", "branches", "consolidationjobs") for verb in ("create", "patch", "delete")
}
READS = {(kind, verb) for kind in ("baselines", "branches", "consolidationjobs") for verb in ("get", "list", "watch")}
SEES = {("baselines/records", "get"), ("baselines/events", "watch"), ("scopes", "read")}

ROLES = {
    "anabranch-viewer": READS | SEES,
    "anabranch-agent": {
        *((kind, verb) for kind in ("baselines", "branches") for verb in ("get", "list", "watch")),
        *SEES,
        ("branches", "create"),
        ("baselines/fork", "create"),
        ("branches/data", "update"),
        ("agents/memory", "update"),
        ("scopes", "write"),
    },
    "anabranch-platform": {("exchanges", "create")},
    "anabranch-reviewer": {
        *READS,
        *SEES,
        ("consolidationjobs", "patch"),
        ("consolidationjobs/review", "get"),
        ("consolidationjobs/review", "update"),
        ("baselines/retractions", "create"),
    },
    "anabranch-publisher": {*READS, *WRITES, *SEES, ("baselines/policy", "update"), ("baselines/archives", "create")},
    "view": READS,
    "edit": READS | {(kind, verb) for kind, verb in WRITES if kind != "baselines"},
    "admin": READS | WRITES,
}


def allowed(cluster, user, namespace, resource, verb, *, group=GROUP, name=""):
    """Asks for a decision, as the API does."""
    resource, _, subresource = resource.partition("/")
    attributes = {
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "verb": verb,
        "name": name,
        "namespace": namespace,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = cluster.kubectl("create", "-f-", "-ojson", stdin=json.dumps(body))
    return json.loads(answer)["status"]["allowed"]


def rights(cluster, namespace, *flags):
    """All that the caller may do in a namespace, as (group, resource, verb): one question."""
    spec = {"namespace": namespace}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": spec}
    create = ("create", "--filename=-", "--output=json", "--validate=false", *flags)
    answer = json.loads(cluster.kubectl(*create, stdin=json.dumps(body)))
    return {
        (group, resource, verb)
        for rule in answer["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def own_rights(cluster, user, namespace):
    """What a user may do there in this system's group, as (resource, verb)."""
    found = rights(cluster, namespace, f"--as={user}")
    return {(resource, verb) for group, resource, verb in found if group in (GROUP, "*")}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_grants_its_rows_and_no_other(installed, namespace, role):
    user = f"{role}@example.org"
    installed.kubectl("create", "rolebinding", "it", f"--clusterrole={role}", f"--user={user}", f"-n{namespace}")
    held = {
        (resource, "patch" if verb == "update" and "/" not in resource else verb)
        for resource, verb in own_rights(installed, user, namespace)
    }
    assert held == ROLES[role]
    assert held & VIRTUAL == ROLES[role] & VIRTUAL
    for resource, verb in (("consolidationjobs/review", "update"), ("baselines/fork", "create")):
        assert allowed(installed, user, namespace, resource, verb) is ((resource, verb) in ROLES[role])
        assert not allowed(installed, user, "default", resource, verb)


def test_a_namespaces_admin_hands_out_the_roles_and_no_more(installed, namespace):
    user = "lead@example.org"
    installed.kubectl("create", "rolebinding", "lead", "--clusterrole=admin", f"--user={user}", f"-n{namespace}")
    bind = ("create", "rolebinding", "--user=somebody", f"-n{namespace}", f"--as={user}")
    for role in (name for name in ROLES if name.startswith("anabranch-")):
        installed.kubectl(*bind, role, f"--clusterrole={role}")
    for role in ("anabranch-operator", "anabranch-operator-served", "anabranch-api", "cluster-admin"):
        with pytest.raises(DevclusterError, match="forbidden"):
            installed.kubectl(*bind, role, f"--clusterrole={role}")


def test_scopes_are_granted_by_name_slashes_and_all(installed, namespace):
    role = ("create", "role", "build", "--verb=read", "--resource=scopes.anabranch.dev", f"-n{namespace}")
    with pytest.raises(DevclusterError):  # kubectl looks resources up, and this one is a name only
        installed.kubectl(*role)
    installed.apply(
        [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "build", "namespace": namespace},
                "rules": [
                    {"apiGroups": [GROUP], "resources": ["scopes"], "resourceNames": ["team/build"], "verbs": ["read"]}
                ],
            }
        ]
    )
    installed.kubectl("create", "rolebinding", "build", "--role=build", "--user=x", f"-n{namespace}")
    assert allowed(installed, "x", namespace, "scopes", "read", name="team/build")
    assert not allowed(installed, "x", namespace, "scopes", "read", name="team")
    assert not allowed(installed, "x", namespace, "scopes", "read")
    assert not allowed(installed, "x", namespace, "scopes", "write", name="team/build")


# The two accounts, by their own tokens


@pytest.fixture(params=[OPERATOR_ACCOUNT, API_ACCOUNT])
def account(request, installed, tmp_path):
    made = accounts.set_up(installed, namespace=DEFAULT_NAMESPACE, name=request.param, folder=tmp_path)
    return Cluster(kind=installed.kind, kubeconfig=made.kubeconfig, kubectl_path=installed.kubectl_path)


def test_neither_account_reads_secrets_mints_tokens_impersonates_or_changes_rights(account):
    for namespace in ("default", DEFAULT_NAMESPACE):
        held = rights(account, namespace)
        assert (GROUP, "branches", "create") in held or (GROUP, "consolidationjobs", "create") in held
        assert not {"*"} & {part for right in held for part in right}
        assert not {verb for _, _, verb in held} & {"deletecollection", "impersonate", "bind", "escalate"}
        # What has ended goes after a while; a Baseline never does.
        deleted = {resource for _, resource, verb in held if verb == "delete"}
        assert deleted in (set(), {"branches", "consolidationjobs"})
        written = {(group, resource) for group, resource, verb in held if verb in ("create", "update", "patch")}
        assert {group for group, _ in written} <= {
            GROUP,
            "events.k8s.io",
            "coordination.k8s.io",
            "authorization.k8s.io",
            "authentication.k8s.io",
        }
        assert {resource for group, resource, _ in held if group == ""} <= {"configmaps", "namespaces"}
        assert not {resource for _, resource in written} & {"consolidationjobs/review", "baselines/policy"}
    with pytest.raises(DevclusterError, match="cannot list resource"):
        account.kubectl("get", "secrets", "--namespace=kube-system")


def test_the_api_account_may_ask_and_create_branches_and_nothing_else(installed):
    user = f"system:serviceaccount:{DEFAULT_NAMESPACE}:{API_ACCOUNT}"
    assert own_rights(installed, user, "default") == {("branches", "create")}
    for resource, group in (
        ("tokenreviews", "authentication.k8s.io"),
        ("subjectaccessreviews", "authorization.k8s.io"),
    ):
        assert allowed(installed, user, "", resource, "create", group=group)
    assert not allowed(installed, user, "default", "configmaps", "get", group="")
    assert not allowed(installed, user, "default", "branches", "get")


def test_the_operator_holds_what_it_needs_and_writes_no_spec_but_that_of_jobs(installed):
    user = f"system:serviceaccount:{DEFAULT_NAMESPACE}:{OPERATOR_ACCOUNT}"
    kinds = ("baselines", "branches", "consolidationjobs")
    assert own_rights(installed, user, "default") == {
        *((kind, verb) for kind in kinds for verb in ("get", "list", "watch")),
        *((f"{kind}/status", "patch") for kind in kinds),
        ("baselines", "patch"),
        ("consolidationjobs", "create"),
        ("consolidationjobs", "delete"),
        ("branches", "delete"),
        ("consolidationjobs/origin", "create"),
        ("branches/finalizers", "update"),
    }
    assert rights(installed, "default", f"--as={user}") >= {
        *(("", kind, verb) for kind in ("configmaps", "namespaces") for verb in ("get", "list", "watch")),
        ("events.k8s.io", "events", "create"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "watch"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", "list"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "list"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    assert ("admissionregistration.k8s.io", "validatingadmissionpolicies", "watch") not in rights(
        installed, "default", f"--as={user}"
    )
    assert ("events.k8s.io", "events", "patch") not in rights(installed, "default", f"--as={user}")
    lease = {"group": "coordination.k8s.io", "name": LEASE}
    assert allowed(installed, user, DEFAULT_NAMESPACE, "leases", "update", **lease)
    assert not allowed(installed, user, DEFAULT_NAMESPACE, "leases", "patch", **lease)
    assert not allowed(installed, user, "default", "leases", "update", **lease)
    assert not allowed(
        installed, user, DEFAULT_NAMESPACE, "leases", "update", group="coordination.k8s.io", name="other"
    )
    assert not allowed(installed, user, "", "tokenreviews", "create", group="authentication.k8s.io")
