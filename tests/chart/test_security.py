"""What every pod of a release may do: to its node, to the API server, and to the network."""

from __future__ import annotations

import pytest
from tests.chart.rendering import CERT_MANAGER, CLOUDNATIVEPG, CNPG, EXISTING, NAMESPACE, TRIAL

SHAPES = {
    "existing": (EXISTING, ()),
    "trial": (TRIAL, ()),
    "cloudnativepg": (CLOUDNATIVEPG, (CNPG, CERT_MANAGER)),
}


@pytest.fixture(params=SHAPES)
def rendered(request, render):
    values, apis = SHAPES[request.param]
    return render(values, apis=apis)


def test_every_container_is_what_the_restricted_standard_asks_for(rendered):
    for owner, _, pod in rendered.pods():
        assert pod["securityContext"]["runAsNonRoot"] is True, owner
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert container["resources"]["limits"].keys() == {"memory"}  # a limit on CPU only slows
        kinds = {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]}
        assert kinds <= {"emptyDir", "configMap", "secret", "projected"}


def test_only_who_calls_the_api_server_has_a_token_for_it(rendered):
    holders = {owner for owner, _, pod in rendered.pods() if pod["automountServiceAccountToken"]}
    assert holders == {"anabranch-operator", "anabranch-api", "anabranch-uninstall"}
    for account in rendered.of("ServiceAccount"):
        assert account["automountServiceAccountToken"] is False
    test = rendered.pod("anabranch-test")
    (source,) = next(each for each in test["volumes"] if each["name"] == "token")["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == f"anabranch.{NAMESPACE}"


def test_each_program_sees_the_login_of_its_own_role_and_no_other(rendered):
    own = {"anabranch-operator": "operator", "anabranch-api": "api"}
    for owner, role in own.items():
        pod = rendered.pod(owner)
        for container in (*pod["containers"], *pod["initContainers"]):
            for entry in container["env"]:
                reference = entry.get("valueFrom", {}).get("secretKeyRef")
                if reference and "DSN" in entry["name"]:
                    assert role in reference["name"] + reference["key"]
                    assert "migrate-" not in reference["key"]
    assert not any(
        "secret" in volume for volume in rendered.pod("anabranch-migrate")["volumes"] if volume["name"] != "database-ca"
    )


def test_no_secret_value_stands_in_a_pod(rendered):
    for _, _, pod in rendered.pods():
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            for entry in container.get("env", ()):
                assert "postgresql://" not in entry.get("value", "")
                assert "PASSWORD" not in entry["name"] or "value" not in entry or entry["name"].endswith("_FILE")


def test_every_object_is_in_the_releases_namespace_or_in_none(rendered):
    cluster_wide = {
        "CustomResourceDefinition",
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    for each in rendered.objects:
        wanted = None if each["kind"] in cluster_wide else NAMESPACE
        assert each["metadata"].get("namespace") == wanted, (each["kind"], each["metadata"]["name"])
        assert each["metadata"]["labels"]["app.kubernetes.io/name"] == "anabranch"
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "anabranch"


def test_no_role_of_a_release_holds_a_wildcard_reaches_secrets_or_deletes_more_than_what_has_ended(rendered):
    for role in (*rendered.of("ClusterRole"), *rendered.of("Role")):
        for rule in role["rules"]:
            assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not {"secrets", "serviceaccounts/token", "pods/exec"} & set(rule["resources"])
    accounts = {subject["name"] for each in rendered.of("ClusterRoleBinding") for subject in each["subjects"]}
    assert accounts == {"anabranch-operator", "anabranch-api", "anabranch-uninstall"}
    bound = {each["roleRef"]["name"] for each in rendered.of("ClusterRoleBinding")}
    assert bound == accounts | {"anabranch-operator-served"}
    deleting = [
        (name, rule["resources"])
        for name in sorted(bound)
        for rule in rendered.get("ClusterRole", name)["rules"]
        if "delete" in rule["verbs"]
    ]
    assert deleting == [("anabranch-operator-served", ["branches", "consolidationjobs"])]


def test_who_uninstalls_may_stop_the_operator_let_baselines_go_and_nothing_else(render):
    rendered = render()
    assert rendered.get("ClusterRole", "anabranch-uninstall")["rules"] == [
        {"apiGroups": ["anabranch.dev"], "resources": ["baselines"], "verbs": ["get", "list", "patch"]},
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "resourceNames": ["baselines.anabranch.dev"],
            "verbs": ["get"],
        },
    ]
    assert rendered.get("Role", "anabranch-uninstall")["rules"] == [
        {
            "apiGroups": ["apps"],
            "resources": ["deployments/scale"],
            "resourceNames": ["anabranch-operator"],
            "verbs": ["get", "patch"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["anabranch-operator"],
            "verbs": ["delete"],
        },
    ]


def test_an_operator_of_some_namespaces_has_rights_in_those_alone(render):
    rendered = render({**EXISTING, "operator": {"namespaces": ["blue", NAMESPACE]}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "anabranch-operator-served"}
    operator = {"kind": "ServiceAccount", "name": "anabranch-operator", "namespace": NAMESPACE}
    bindings = [each for each in rendered.of("RoleBinding") if each["roleRef"] == role]
    assert [each["metadata"]["namespace"] for each in bindings] == ["blue", NAMESPACE]
    assert len({(each["metadata"]["namespace"], each["metadata"]["name"]) for each in rendered.of("RoleBinding")}) == 4
    for each in bindings:
        assert each["subjects"] == [operator]
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "anabranch"
    assert not [each for each in rendered.of("ClusterRoleBinding") if each["roleRef"] == role]
    # What is bound for the whole cluster then concerns what belongs to no namespace.
    bound = [each["roleRef"]["name"] for each in rendered.of("ClusterRoleBinding") if operator in each["subjects"]]
    rules = [rule for name in bound for rule in rendered.get("ClusterRole", name)["rules"]]
    assert {resource for rule in rules for resource in rule["resources"]} == {
        "namespaces",
        "subjectaccessreviews",
        "customresourcedefinitions",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    }
    assert rendered.container("anabranch-operator")["args"][-2:] == ["--namespace=blue", f"--namespace={NAMESPACE}"]


def test_an_operator_of_all_namespaces_has_the_same_rights_everywhere(render):
    rendered = render()
    assert (
        rendered.get("ClusterRoleBinding", "anabranch-operator-served")["roleRef"]["name"]
        == "anabranch-operator-served"
    )
    assert {each["metadata"]["namespace"] for each in rendered.of("RoleBinding")} == {NAMESPACE}


def selects(policy, labels):
    wanted = policy["spec"]["podSelector"]["matchLabels"]
    return wanted.items() <= labels.items()


def ports(rules):
    return {port["port"] for rule in rules or () for port in rule.get("ports", ())}


def test_what_each_pod_may_send_and_receive(render):
    rendered = render(TRIAL)
    wanted = {
        "anabranch-operator": ({"http"}, {53, 443, 6443, 5432}),
        "anabranch-api": ({"api", "http"}, {53, 443, 6443, 5432}),
        "anabranch-migrate": (set(), {53, 5432}),
        "anabranch-database": ({"postgres"}, {53}),
        "anabranch-uninstall": (set(), {53, 443, 6443}),
        "anabranch-test": (set(), {53, "api"}),
    }
    seen = set()
    for owner, metadata, _ in rendered.pods():
        (name,) = [each for each in wanted if owner.startswith(each)]
        policies = [each for each in rendered.of("NetworkPolicy") if selects(each, metadata["labels"])]
        assert {kind for each in policies for kind in each["spec"]["policyTypes"]} == {"Ingress", "Egress"}
        incoming = set().union(*(ports(each["spec"].get("ingress")) for each in policies))
        outgoing = set().union(*(ports(each["spec"].get("egress")) for each in policies))
        assert (incoming, outgoing) == wanted[name], owner
        seen.add(name)
    assert seen == wanted.keys()
    (database,) = rendered.get("NetworkPolicy", "anabranch-database")["spec"]["ingress"]
    (peer,) = database["from"]
    assert peer["podSelector"]["matchExpressions"][0]["values"] == ["operator", "api", "migrate"]


def test_network_policies_follow_their_values(render):
    peers = [{"namespaceSelector": {"matchLabels": {"agents": "yes"}}}]
    egress = [{"ports": [{"protocol": "TCP", "port": 8443}]}]
    rendered = render(
        {
            **EXISTING,
            "networkPolicy": {
                "apiFrom": peers,
                "metricsFrom": peers,
                "apiServerPorts": [16443],
                "databasePorts": [6432],
                "dnsPorts": [5353],
                "extraEgress": egress,
            },
            "gitRepositories": {"docs": {"url": "https://git.example/docs.git"}},
            "models": {
                "own": {"url": "http://model.models:8080/v1", "model": "m"},
                "plain": {"url": "http://model.models", "model": "m"},
            },
            "backupTargets": {
                "minio": {
                    "bucket": {
                        "endpoint": "https://minio.storage:9000",
                        "region": "x",
                        "bucket": "memory",
                        "credentialsSecret": "keys",
                    }
                }
            },
        }
    )
    operator = rendered.get("NetworkPolicy", "anabranch-operator")["spec"]
    assert ports(operator["egress"]) == {16443, 6432, 443, 8443, 8080, 80, 9000}
    assert operator["ingress"][0]["from"] == peers
    assert ports(rendered.get("NetworkPolicy", "anabranch")["spec"]["egress"]) == {5353}
    api, _ = rendered.get("NetworkPolicy", "anabranch-api")["spec"]["ingress"]
    assert api["from"][0] == peers[0]
    assert api["from"][1]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "test"
    assert not render({**EXISTING, "networkPolicy": {"enabled": False}}).of("NetworkPolicy")
