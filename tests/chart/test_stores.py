"""Several databases: what the chart makes for each of them, and what it tells the programs."""

from __future__ import annotations

import pytest
from tests.chart.rendering import EXISTING, NAMESPACE

STORES = {
    **EXISTING,
    "stores": {
        "far-east": {
            "existingSecret": "east-dsns",
            "keys": {"apiListen": "api-direct"},
            "caSecret": {"name": "east-ca"},
        },
        "west": {"existingSecret": "west-dsns"},
    },
}


def variables(container):
    return {each["name"]: each for each in container["env"]}


def secret(variable):
    reference = variable["valueFrom"]["secretKeyRef"]
    return reference["name"], reference["key"]


def pod(workload):
    return workload["spec"]["template"]["spec"]


def test_each_store_has_an_operator_with_its_own_database_and_the_default_ones_agents(render):
    made = render(STORES)
    deployments = {each["metadata"]["name"]: each for each in made.of("Deployment")}
    assert set(deployments) == {
        "anabranch-api",
        "anabranch-operator",
        "anabranch-operator-far-east",
        "anabranch-operator-west",
    }
    for name, dsns in (("far-east", "east-dsns"), ("west", "west-dsns")):
        deployment = deployments[f"anabranch-operator-{name}"]
        told = variables(pod(deployment)["containers"][0])
        assert secret(told["ANABRANCH_OPERATOR_DSN"]) == (dsns, "operator-dsn")
        assert secret(told["ANABRANCH_AGENTS_DSN"]) == ("dsns", "operator-dsn")
        assert (told["ANABRANCH_STORE"]["value"], told["ANABRANCH_STORES"]["value"]) == (name, "far-east,west")
        assert secret(variables(pod(deployment)["initContainers"][0])["ANABRANCH_MIGRATE_DSN"])[0] == dsns
        labels = deployment["spec"]["selector"]["matchLabels"]
        assert labels["anabranch.dev/store"] == name
        assert labels.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    default = variables(pod(deployments["anabranch-operator"])["containers"][0])
    assert secret(default["ANABRANCH_OPERATOR_DSN"]) == ("dsns", "operator-dsn")
    assert default["ANABRANCH_STORES"]["value"] == "far-east,west"
    assert {"ANABRANCH_STORE", "ANABRANCH_AGENTS_DSN"}.isdisjoint(default)


def test_the_api_is_told_of_every_store_and_waits_for_none_in_particular(render):
    container = pod(render(STORES).get("Deployment", "anabranch-api"))
    told = variables(container["containers"][0])
    assert secret(told["ANABRANCH_STORE_FAR_EAST_API_DSN"]) == ("east-dsns", "api-dsn")
    assert secret(told["ANABRANCH_STORE_FAR_EAST_LISTEN_DSN"]) == ("east-dsns", "api-direct")
    assert secret(told["ANABRANCH_STORE_WEST_API_DSN"]) == ("west-dsns", "api-dsn")
    assert "ANABRANCH_STORE_WEST_LISTEN_DSN" not in told
    assert "initContainers" not in container
    assert told["ANABRANCH_STORES_WAIT_SECONDS"]["value"] == "30"


def test_each_store_is_migrated_by_a_job_of_its_own(render):
    jobs = {
        each["metadata"].get("labels", {}).get("anabranch.dev/store"): each
        for each in render(STORES).of("Job")
        if each["metadata"]["labels"].get("app.kubernetes.io/component") == "migrate"
    }
    found = {name: secret(variables(pod(job)["containers"][0])["ANABRANCH_MIGRATE_DSN"]) for name, job in jobs.items()}
    assert found == {
        None: ("dsns", "migrate-dsn"),
        "far-east": ("east-dsns", "migrate-dsn"),
        "west": ("west-dsns", "migrate-dsn"),
    }
    assert len({job["metadata"]["name"] for job in jobs.values()}) == 3


def test_whoever_connects_to_a_store_may_trust_its_authority(render):
    made = render(STORES)
    workloads = [
        made.get("Deployment", "anabranch-api"),
        made.get("Deployment", "anabranch-operator-far-east"),
        *(job for job in made.of("Job") if job["metadata"]["labels"].get("anabranch.dev/store") == "far-east"),
    ]
    assert len(workloads) == 3
    for workload in workloads:
        volumes = {each["name"]: each for each in pod(workload)["volumes"]}
        assert volumes["store-far-east"]["secret"]["secretName"] == "east-ca"
        for container in [*pod(workload)["containers"], *pod(workload).get("initContainers", ())]:
            mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
            assert mounts["store-far-east"] == "/etc/anabranch/stores/far-east"
    other = pod(made.get("Deployment", "anabranch-operator-west"))
    assert not [each for each in other["volumes"] if each["name"].startswith("store-")]


def test_the_operators_may_hold_the_leases_of_their_stores_and_the_uninstallation_ends_all(render):
    made = render(STORES)
    leases = ["anabranch-operator-far-east", "anabranch-operator-west"]
    (rule,) = made.get("Role", "anabranch-operator-stores")["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (leases, ["get", "update"])
    binding = made.get("RoleBinding", "anabranch-operator-stores")
    assert [(each["name"], each["namespace"]) for each in binding["subjects"]] == [("anabranch-operator", NAMESPACE)]
    named = [
        rule["resourceNames"] for rule in made.get("Role", "anabranch-uninstall")["rules"] if "resourceNames" in rule
    ]
    assert named == [["anabranch-operator", *leases]] * 2
    (container,) = pod(made.get("Job", "anabranch-uninstall"))["containers"]
    assert container["args"][2:] == ["--store=far-east", "--store=west"]


def test_each_store_has_a_disruption_budget_of_its_own(render):
    made = render(STORES)
    budgets = {each["metadata"]["name"]: each["spec"] for each in made.objects if each["kind"] == "PodDisruptionBudget"}
    for store in ("far-east", "west"):
        selector = budgets[f"anabranch-operator-{store}"]["selector"]
        assert selector["matchLabels"]["anabranch.dev/store"] == store
    others = budgets["anabranch-operator"]["selector"]
    assert others["matchExpressions"] == [{"key": "anabranch.dev/store", "operator": "DoesNotExist"}]


def test_without_further_stores_nothing_of_them_is_there(render):
    made = render(EXISTING)
    assert "stores" not in str([each["metadata"]["name"] for each in made.objects])
    for name in ("anabranch-api", "anabranch-operator"):
        told = variables(pod(made.get("Deployment", name))["containers"][0])
        assert not [each for each in told if each.startswith("ANABRANCH_STORE")]


@pytest.mark.parametrize(
    ("stores", "words"),
    [
        ({"default": {"existingSecret": "x"}}, "is the database of"),
        ({"East": {"existingSecret": "x"}}, "stores"),
        ({"east": {}}, "existingSecret"),
    ],
)
def test_a_store_that_cannot_be_is_refused(render, stores, words):
    with pytest.raises(Exception, match=words):
        render({**EXISTING, "stores": stores})
