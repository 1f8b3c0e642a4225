"""What each value does, and what is said of one that is wrong."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml
from tests.chart.rendering import CERT_MANAGER, CLOUDNATIVEPG, CNPG, EXISTING, NAMESPACE, TRIAL, HelmError

from anabranch.api import parts
from anabranch.api.settings import Settings
from anabranch.chart.values import ChartValues
from anabranch.controllers.configuration import Configuration
from anabranch.controllers.opening import CONNECTIONS
from anabranch.model.limits import ARCHIVE_BYTES, LINE_RECORDS
from anabranch.store.database import Database

PLAIN = {"ANABRANCH_API_DSN": "postgresql://x", "ANABRANCH_CURSOR_KEYS": "k" * 32}
"""The least that the API needs to be told."""


def refused(render, values, **settings):
    with pytest.raises(HelmError) as raised:
        render(values, **settings)
    return str(raised.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"apii": {}}, "at '': additional properties 'apii' not allowed"),
        ({"api": {"tls": {"modee": "auto"}}}, "at '/api/tls': additional properties 'modee' not allowed"),
        ({"database": {"mode": "mysql"}}, "value must be one of 'existing', 'cloudnativepg', 'trial'"),
        ({"api": {"replicas": 0}}, "at '/api/replicas': minimum: got 0, want 1"),
        ({"regions": {"eu": {}}}, "additional properties 'regions' not allowed"),
        ({"gitRepositories": {"docs": {"url": "https://x", "path": "/y"}}}, "oneOf"),
        ({"gitRepositories": {"Docs": {"url": "https://x"}}}, "Docs"),
        ({"httpSources": {"wiki": {"hosts": "x"}}}, "additional properties 'hosts' not allowed"),
        ({"image": {"digest": "latest"}}, "at '/image/digest'"),
        ({"api": {"podDisruptionBudget": {"maxUnavailable": "0%"}}}, "at '/api/podDisruptionBudget/maxUnavailable'"),
        ({"operator": {"namespaces": ["a", "b", "a"]}}, "at '/operator/namespaces': items at 0 and 2 are equal"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_refused_by_its_name(render, values, words):
    assert words in refused(render, {**EXISTING, **values})


def test_a_release_may_be_part_of_another(render):
    part = render({**EXISTING, "global": {"region": "eu"}})
    assert part.get("Deployment", "anabranch-api") == render().get("Deployment", "anabranch-api")


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({}, "anabranch:0.1.0"),
        ({"repository": "registry.example/anabranch", "tag": "1.2"}, "registry.example/anabranch:1.2"),
        ({"tag": "1.2", "digest": f"sha256:{'a' * 64}"}, f"anabranch@sha256:{'a' * 64}"),
    ],
)
def test_every_pod_runs_the_one_image(render, image, reference):
    rendered = render({**EXISTING, "image": {**image, "pullPolicy": "Never", "pullSecrets": ["pull"]}})
    for _, _, pod in rendered.pods():
        assert pod["imagePullSecrets"] == [{"name": "pull"}]
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert (container["image"], container["imagePullPolicy"]) == (reference, "Never")


@pytest.mark.parametrize("component", ["operator", "api"])
def test_pods_go_where_the_values_send_them(render, component):
    placed = {
        "nodeSelector": {"pool": "memory"},
        "tolerations": [{"key": "memory", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    }
    more = {
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
        "extraEnv": [{"name": "X", "value": "y"}],
        "extraVolumes": [{"name": "own", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "own", "mountPath": "/own"}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "serviceAccountAnnotations": {"cloud": "identity"},
    }
    rendered = render({**EXISTING, component: {**placed, **more}})
    owner = f"anabranch-{component}"
    (metadata,) = [metadata for name, metadata, _ in rendered.pods() if name == owner]
    pod, container = rendered.pod(owner), rendered.container(owner)
    assert {name: pod[name] for name in placed} == placed
    assert metadata["labels"]["team"] == "a"
    assert metadata["annotations"]["note"] == "b"
    assert rendered.env(owner)["X"] == "y"
    assert more["extraVolumes"][0] in pod["volumes"]
    assert more["extraVolumeMounts"][0] in container["volumeMounts"]
    assert container["resources"] == more["resources"]
    assert rendered.get("ServiceAccount", owner)["metadata"]["annotations"]["cloud"] == "identity"


@pytest.mark.parametrize(
    ("owners", "values"),
    [
        (("anabranch-migrate", "anabranch-uninstall", "anabranch-test"), lambda placed: {**TRIAL, "migration": placed}),
        (("anabranch-database",), lambda placed: {"database": {**TRIAL["database"], "trial": placed}}),
    ],
)
def test_pods_that_run_once_and_that_of_a_trial_go_where_the_values_send_them(render, owners, values):
    placed = {
        "nodeSelector": {"pool": "memory"},
        "tolerations": [{"key": "memory", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    }
    found = {owner: pod for owner, _, pod in render(values(placed)).pods() if placed.items() <= pod.items()}
    assert len(found) == len(owners)
    assert all(owner.startswith(owners) for owner in found)
    assert not any(placed.keys() & pod.keys() for _, _, pod in render(TRIAL).pods())


def test_labels_of_the_values_cannot_take_a_pod_out_of_its_deployment(render):
    rendered = render({**EXISTING, "api": {"labels": {"app.kubernetes.io/component": "other"}}})
    deployment = rendered.get("Deployment", "anabranch-api")["spec"]
    assert deployment["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()


def test_what_the_values_add_stands_once_and_overrides_nothing_of_the_charts(render):
    name = {"app.kubernetes.io/name": "other", "team": "a"}
    mark = {"anabranch.dev/configuration": "other", "anabranch.dev/audience": "other", "note": "b"}
    pods = {"labels": name, "annotations": mark, "serviceAccountAnnotations": mark}
    watched = {"enabled": True, "labels": name}
    metrics = {
        "serviceMonitor": watched,
        "dashboard": watched,
        "prometheusRule": {**watched, "runbookUrl": "https://x"},
    }
    rendered = render(
        {**EXISTING, "operator": pods, "api": pods, "metrics": metrics}
    )  # a key that stands twice is refused
    labelled = [metadata for owner, metadata, _ in rendered.pods() if owner in ("anabranch-operator", "anabranch-api")]
    labelled += [rendered.get(kind, "anabranch")["metadata"] for kind in ("ServiceMonitor", "PrometheusRule")]
    labelled += [rendered.get("ConfigMap", "anabranch-dashboard")["metadata"]]
    for metadata in labelled:
        assert metadata["labels"].items() >= {"app.kubernetes.io/name": "anabranch", "team": "a"}.items()
    operator = rendered.get("Deployment", "anabranch-operator")["spec"]["template"]["metadata"]["annotations"]
    plain = render().get("Deployment", "anabranch-operator")["spec"]["template"]["metadata"]["annotations"]
    assert operator == {**mark, **plain}
    account = rendered.get("ServiceAccount", "anabranch-api")["metadata"]["annotations"]
    assert account == {**mark, "anabranch.dev/audience": f"anabranch.{NAMESPACE}"}


def test_pods_are_spread_over_nodes_and_zones_unless_the_values_say_how(render):
    def spread(rendered):
        return rendered.pod("anabranch-api")["topologySpreadConstraints"]

    selector = render().get("Deployment", "anabranch-api")["spec"]["selector"]
    assert [each["topologyKey"] for each in spread(render())] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    for each in spread(render()):
        assert (each["whenUnsatisfiable"], each["labelSelector"]) == ("ScheduleAnyway", selector)
    own = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    changed = spread(render({**EXISTING, "api": {"topologySpreadConstraints": [own]}}))
    assert changed == [{**own, "labelSelector": selector}]


def test_a_budget_guards_what_has_replicas_and_nothing_else(render):
    assert render().names("PodDisruptionBudget") == {"anabranch-api", "anabranch-operator"}
    both = render({**EXISTING, "operator": {"replicas": 3, "podDisruptionBudget": {"maxUnavailable": "50%"}}})
    assert both.get("PodDisruptionBudget", "anabranch-operator")["spec"]["maxUnavailable"] == "50%"
    assert both.get("Deployment", "anabranch-operator")["spec"]["replicas"] == 3
    for program in ("api", "operator"):
        for values in ({"replicas": 1}, {"podDisruptionBudget": {"enabled": False}}):
            budgets = render({**EXISTING, program: values}).names("PodDisruptionBudget")
            assert budgets == {"anabranch-api", "anabranch-operator"} - {f"anabranch-{program}"}


def test_of_two_operators_one_stands_by_elsewhere_and_they_roll_one_after_the_other(render):
    def operator(**values):
        return render({**EXISTING, "operator": values}).get("Deployment", "anabranch-operator")["spec"]

    two = operator()
    assert two["replicas"] == 2
    assert two["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    spread = two["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    # One alone is replaced before it goes: nobody would lead meanwhile.
    assert operator(replicas=1)["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (container,) = operator(leaseSeconds=30)["template"]["spec"]["containers"]
    assert "--lease-seconds=30" in container["args"]
    assert "maximum: got 61, want 60" in refused(render, {**EXISTING, "operator": {"leaseSeconds": 61}})


def test_the_autoscaler_owns_the_number_of_replicas(render):
    rendered = render({**EXISTING, "api": {"autoscaling": {"enabled": True, "minReplicas": 3, "targetCpu": 60}}})
    assert "replicas" not in rendered.get("Deployment", "anabranch-api")["spec"]
    scaler = rendered.get("HorizontalPodAutoscaler", "anabranch-api")["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"], scaler["scaleTargetRef"]["name"]) == (3, 10, "anabranch-api")
    assert scaler["metrics"][0]["resource"]["target"]["averageUtilization"] == 60
    wrong = {"autoscaling": {"enabled": True, "minReplicas": 11}}
    assert "minReplicas is greater than maxReplicas" in refused(render, {**EXISTING, "api": wrong})


def test_the_operator_reads_the_named_sources_as_they_were_given(render):
    sources = {
        "gitRepositories": {"docs": {"url": "https://git.example/docs.git"}, "local": {"path": "/repositories/x"}},
        "httpSources": {"wiki": {"host": "wiki.example", "allowPrivate": True, "caFile": "/etc/wiki/ca.crt"}},
    }
    rendered = render({**EXISTING, **sources})
    written = rendered.get("ConfigMap", "anabranch-operator")["data"]["config.yaml"]
    parsed = Configuration.parse(yaml.safe_load(written))
    assert parsed == Configuration.parse({**sources, "cacheFolder": "/var/cache/anabranch"})
    mounts = {mount["mountPath"]: mount["name"] for mount in rendered.container("anabranch-operator")["volumeMounts"]}
    assert rendered.env("anabranch-operator")["ANABRANCH_CONFIG"].startswith("/etc/anabranch/operator/")
    assert {"/etc/anabranch/operator", "/var/cache/anabranch", "/tmp"} <= mounts.keys()


MODELS = {
    "small": {
        "url": "https://models.example:8443/v1",
        "model": "small-1",
        "timeoutSeconds": 20,
        "apiKeySecret": "small-key",
        "caSecret": "authority",
    },
    "own": {"url": "http://model.models:8080/v1", "model": "own-7b", "jsonMode": False},
    "plain": {"url": "https://plain.example/v1", "model": "m"},
}


def test_the_operator_knows_the_models_and_reads_their_secrets_from_files(render):
    rendered = render({**EXISTING, "models": MODELS})
    parsed = Configuration.parse(yaml.safe_load(rendered.get("ConfigMap", "anabranch-operator")["data"]["config.yaml"]))
    own, plain, small = (parsed.models[name] for name in sorted(MODELS))
    assert (small.api_key_file, small.ca_file) == (
        "/etc/anabranch/models/small/api-key",
        "/etc/anabranch/models/small/ca.crt",
    )
    assert (small.model, small.timeout_seconds, own.json_mode) == ("small-1", 20, False)
    assert (own.api_key_file, plain.ca_file) == (None, None)
    (volume,) = [each for each in rendered.pod("anabranch-operator")["volumes"] if each["name"] == "models"]
    assert [each["secret"] for each in volume["projected"]["sources"]] == [
        {"name": "small-key", "items": [{"key": "api-key", "path": "small/api-key"}]},
        {"name": "authority", "items": [{"key": "ca.crt", "path": "small/ca.crt"}]},
    ]
    mounts = {each["name"]: each for each in rendered.container("anabranch-operator")["volumeMounts"]}
    assert (mounts["models"]["mountPath"], mounts["models"]["readOnly"]) == ("/etc/anabranch/models", True)
    assert "models" not in {each["name"] for each in rendered.pod("anabranch-api")["volumes"]}
    keyless = render({**EXISTING, "models": {"own": MODELS["own"]}})
    assert "models" not in {each["name"] for each in keyless.pod("anabranch-operator")["volumes"]}


def test_a_models_key_is_sent_over_https_only_and_never_stands_in_the_values(render):
    clear = {**MODELS["small"], "url": "http://models.example/v1"}
    assert "models.small: a key is sent over https only" in refused(render, {**EXISTING, "models": {"small": clear}})
    written = {**MODELS["plain"], "apiKey": "sk-secret"}
    assert "'apiKey' not allowed" in refused(render, {**EXISTING, "models": {"small": written}})


def test_a_changed_configuration_makes_new_pods(render):
    def mark(values):
        template = render(values).get("Deployment", "anabranch-operator")["spec"]["template"]
        return template["metadata"]["annotations"]["anabranch.dev/configuration"]

    changed = {**EXISTING, "httpSources": {"wiki": {"host": "wiki.example"}}}
    assert mark(EXISTING) == mark({**EXISTING, "api": {"replicas": 3}}) != mark(changed)


def test_git_reads_its_credentials_from_the_secret(render):
    rendered = render({**EXISTING, "operator": {"gitCredentialsSecret": "git"}})
    environment = rendered.env("anabranch-operator")
    assert environment["GIT_CONFIG_KEY_0"] == "credential.helper"
    assert "/etc/anabranch/git/credentials" in environment["GIT_CONFIG_VALUE_0"]
    (volume,) = [each for each in rendered.pod("anabranch-operator")["volumes"] if each["name"] == "git"]
    assert volume["secret"]["secretName"] == "git"
    assert not any(name.startswith("GIT_") for name in render().env("anabranch-operator"))


def test_the_api_alone_gets_the_key_that_manifests_are_signed_with(render):
    rendered = render({**EXISTING, "api": {"signing": {"existingSecret": "signing", "key": "ed25519"}}})
    settings = Settings.from_environment(
        {**PLAIN, "ANABRANCH_SIGNING_KEY": rendered.env("anabranch-api")["ANABRANCH_SIGNING_KEY"]}
    )
    (mount,) = [each for each in rendered.container("anabranch-api")["volumeMounts"] if each["name"] == "signing"]
    assert settings.signing_key == Path(mount["mountPath"], "key.pem")
    assert mount["readOnly"] is True
    for owner, _, pod in rendered.pods():
        volumes = [each["secret"] for each in pod["volumes"] if each.get("secret", {}).get("secretName") == "signing"]
        wanted = [{"secretName": "signing", "items": [{"key": "ed25519", "path": "key.pem"}]}]
        assert volumes == (wanted if owner == "anabranch-api" else [])
        for waiting in pod.get("initContainers", ()):
            assert "signing" not in {each["name"] for each in waiting["volumeMounts"]}
    assert "ANABRANCH_SIGNING_KEY" not in render().env("anabranch-api")


def test_an_embedder_is_told_to_both_that_need_it_and_to_nobody_unless_set(render):
    rendered = render({**EXISTING, "search": {"embedder": "wordllama", "mode": "words"}})
    api, operator = (rendered.env(f"anabranch-{name}") for name in ("api", "operator"))
    assert operator["ANABRANCH_EMBEDDER"] == "wordllama"
    told = {name: api[name] for name in ("ANABRANCH_EMBEDDER", "ANABRANCH_SEARCH_MODE")}
    settings = Settings.from_environment({**PLAIN, **told})
    assert (settings.embedder, settings.search_mode) == ("wordllama", "words")
    for name in ("api", "operator"):
        plain = render().env(f"anabranch-{name}")
        assert not {"ANABRANCH_EMBEDDER", "ANABRANCH_SEARCH_MODE"} & plain.keys()


def test_workers_namespaces_and_the_age_of_events_are_the_operators_arguments(render):
    rendered = render({**EXISTING, "operator": {"workers": 7, "namespaces": ["a", "b"], "keepAgentEvents": "36h"}})
    assert rendered.container("anabranch-operator")["args"][3:] == [
        "--lease-seconds=9",
        "--workers=7",
        "--keep-agent-events=36h",
        "--namespace=a",
        "--namespace=b",
    ]


def test_both_programs_know_the_namespace_of_the_release(render):
    for owner in ("anabranch-operator", "anabranch-api"):
        assert render().env(owner)["ANABRANCH_SYSTEM_NAMESPACE"] == NAMESPACE


def test_the_service_is_as_the_values_say(render):
    rendered = render(
        {**EXISTING, "api": {"service": {"type": "LoadBalancer", "port": 8443, "annotations": {"a": "b"}}}}
    )
    service = rendered.get("Service", "anabranch-api")
    assert service["metadata"]["annotations"] == {"a": "b"}
    assert (service["spec"]["type"], service["spec"]["ports"][0]["port"]) == ("LoadBalancer", 8443)
    assert rendered.env("anabranch-test")["ANABRANCH_URL"] == f"https://anabranch-api.{NAMESPACE}.svc:8443"


def test_the_uninstall_hook_runs_before_anything_goes_and_can_be_left_out(render):
    hooks = [each for each in render().objects if each["metadata"]["name"] == "anabranch-uninstall"]
    assert {each["kind"] for each in hooks} == {
        "NetworkPolicy",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Job",
    }
    for each in hooks:
        if each["kind"] != "NetworkPolicy":
            assert each["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
            early = each["metadata"]["annotations"].get("helm.sh/hook-weight", "0")
            assert early == ("0" if each["kind"] == "Job" else "-1")
    left = render({**EXISTING, "uninstall": {"hook": False}})
    assert not [each for each in left.objects if each["metadata"]["name"] == "anabranch-uninstall"]


# The database


def test_existing_each_program_reads_its_own_key(render):
    keys = {"operator": "o", "api": "a", "migrate": "m", "operatorListen": "ol", "apiListen": "al", "apiStandbys": "as"}
    rendered = render({"database": {"existingSecret": "dsns", "keys": keys}})
    operator, api = rendered.env("anabranch-operator"), rendered.env("anabranch-api")
    assert (operator["ANABRANCH_OPERATOR_DSN"], operator["ANABRANCH_LISTEN_DSN"]) == (("dsns", "o"), ("dsns", "ol"))
    assert (api["ANABRANCH_API_DSN"], api["ANABRANCH_LISTEN_DSN"]) == (("dsns", "a"), ("dsns", "al"))
    assert api["ANABRANCH_API_DSN_RO"] == ("dsns", "as")
    assert "ANABRANCH_API_DSN_RO" not in operator
    assert rendered.env("anabranch-migrate") == {"ANABRANCH_MIGRATE_DSN": ("dsns", "m")}
    assert not {"ANABRANCH_LISTEN_DSN", "ANABRANCH_API_DSN_RO"} & set(render().env("anabranch-api"))
    assert "StatefulSet" not in {each["kind"] for each in rendered.objects}


def test_existing_without_a_secret_says_what_is_needed(render):
    assert "database.existingSecret is needed" in refused(render, {})


def test_existing_every_pod_that_connects_may_trust_an_authority(render):
    rendered = render({"database": {"existingSecret": "dsns", "caSecret": {"name": "ca", "key": "root"}}})
    for owner in ("anabranch-operator", "anabranch-api", "anabranch-migrate"):
        pod = rendered.pod(owner)
        (volume,) = [each for each in pod["volumes"] if each["name"] == "database-ca"]
        assert volume["secret"] == {"secretName": "ca", "items": [{"key": "root", "path": "ca.crt"}]}
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert "/etc/anabranch/database" in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_both_programs_wait_for_the_schema_as_themselves(render):
    rendered = render({**EXISTING, "migration": {"waitSeconds": 30}})
    for owner, key in (("anabranch-operator", "operator-dsn"), ("anabranch-api", "api-dsn")):
        (waiting,) = rendered.pod(owner)["initContainers"]
        assert waiting["args"] == ["migrate", "--wait=30"]
        assert waiting["env"][0]["valueFrom"]["secretKeyRef"] == {"name": "dsns", "key": key}


def test_the_migration_is_no_hook_and_has_a_new_name_whenever_it_changes(render):
    def job(values):
        (found,) = [
            each for each in render(values).of("Job") if each["metadata"]["name"].startswith("anabranch-migrate")
        ]
        return found

    plain = job(EXISTING)
    assert "annotations" not in plain["metadata"]
    assert plain["metadata"]["name"] == job({**EXISTING, "api": {"replicas": 5}})["metadata"]["name"]
    assert plain["metadata"]["name"] != job({**EXISTING, "image": {"tag": "2"}})["metadata"]["name"]
    assert plain["metadata"]["name"] != job({**EXISTING, "migration": {"backoffLimit": 3}})["metadata"]["name"]
    assert plain["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate", "--wait-server=120"]


def test_the_notes_name_the_job_that_migrates_or_say_that_there_is_none(helm, render):
    (job,) = [name for name in render().names("Job") if name.startswith("anabranch-migrate")]
    assert f"job/{job})" in helm.notes(EXISTING)
    assert "run `anabranch migrate`" in helm.notes({**EXISTING, "migration": {"enabled": False}})


def test_without_the_migration_the_pods_wait_for_somebody_elses(render):
    rendered = render({**EXISTING, "migration": {"enabled": False}})
    assert not [each for each in rendered.of("Job") if each["metadata"]["name"].startswith("anabranch-migrate")]
    assert rendered.pod("anabranch-api")["initContainers"]


def test_trial_the_passwords_are_drawn_and_each_role_has_its_own(render):
    rendered = render(TRIAL)
    roles = {
        "admin": "postgres",
        "operator": "anabranch_operator",
        "api": "anabranch_api",
        "migrate": "anabranch_migrate",
    }
    secrets = {role: rendered.get("Secret", f"anabranch-database-{role}")["stringData"] for role in roles}
    assert len({secret["password"] for secret in secrets.values()}) == 4
    for role, user in roles.items():
        secret = secrets[role]
        assert secret["username"] == user
        assert (
            secret["dsn"]
            == f"postgresql://{user}:{secret['password']}@anabranch-database.{NAMESPACE}.svc:5432/anabranch"
        )
    migrate = rendered.container("anabranch-migrate")
    assert migrate["args"] == ["migrate", "--wait-server=120", "--roles-from-env"]
    environment = rendered.env("anabranch-migrate")
    assert environment["ANABRANCH_MIGRATE_DSN"] == ("anabranch-database-admin", "dsn")
    assert environment["ANABRANCH_API_PASSWORD"] == ("anabranch-database-api", "password")


def test_trial_data_and_its_passwords_stay_together(render):
    kept = render(TRIAL)
    claims = kept.get("StatefulSet", "anabranch-database")["spec"]["volumeClaimTemplates"]
    assert claims[0]["spec"]["resources"]["requests"]["storage"] == "5Gi"
    secret = kept.get("Secret", "anabranch-database-admin")["metadata"]
    assert secret["annotations"] == {"helm.sh/resource-policy": "keep"}
    lost = render({"database": {"mode": "trial", "trial": {"storageSize": ""}}})
    stateful = lost.get("StatefulSet", "anabranch-database")["spec"]
    assert "volumeClaimTemplates" not in stateful
    assert {"name": "data", "emptyDir": {}} in stateful["template"]["spec"]["volumes"]
    assert "annotations" not in lost.get("Secret", "anabranch-database-admin")["metadata"]


def test_trial_the_server_is_as_the_values_say(render):
    trial = {"image": "localhost/pg:1", "runAsUser": 70, "pullPolicy": "Never", "storageClass": "fast"}
    rendered = render({"database": {"mode": "trial", "trial": trial}})
    pod = rendered.pod("anabranch-database")
    assert (pod["containers"][0]["image"], pod["containers"][0]["imagePullPolicy"]) == ("localhost/pg:1", "Never")
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (70, 70)
    claim = rendered.get("StatefulSet", "anabranch-database")["spec"]["volumeClaimTemplates"][0]
    assert claim["spec"]["storageClassName"] == "fast"


def test_cloudnativepg_runs_a_cluster_that_the_roles_log_in_to(render):
    more = {"instances": 2, "imageName": "pg:17", "storageSize": "1Ti", "storageClass": "fast"}
    backup = {"backup": {"retentionPolicy": "30d"}}
    values = {"database": {"mode": "cloudnativepg", "cloudnativepg": {**more, "extraSpec": backup}}}
    rendered = render(values, apis=(CNPG,))
    cluster = rendered.get("Cluster", "anabranch-database")
    assert cluster["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    spec = cluster["spec"]
    assert (spec["instances"], spec["imageName"]) == (2, "pg:17")
    assert spec["storage"] == {"size": "1Ti", "storageClass": "fast"}
    assert spec["backup"] == backup["backup"]
    owner = spec["bootstrap"]["initdb"]
    assert (owner["database"], owner["owner"], owner["secret"]["name"]) == (
        "anabranch",
        "anabranch_migrate",
        "anabranch-database-migrate",
    )
    logins = {role["name"]: role["passwordSecret"]["name"] for role in spec["managed"]["roles"] if role["login"]}
    assert logins == {"anabranch_operator": "anabranch-database-operator", "anabranch_api": "anabranch-database-api"}
    for secret in {*logins.values(), owner["secret"]["name"]}:
        found = rendered.get("Secret", secret)
        assert found["type"] == "kubernetes.io/basic-auth"
        assert "sslmode=verify-full&sslrootcert=/etc/anabranch/database/ca.crt" in found["stringData"]["dsn"]
    assert rendered.env("anabranch-migrate") == {"ANABRANCH_MIGRATE_DSN": ("anabranch-database-migrate", "dsn")}


def test_cloudnativepg_has_connections_for_all_that_the_defaults_may_start(render):
    def most(database):
        cluster = render({"database": {"mode": "cloudnativepg", "cloudnativepg": database}}, apis=(CNPG,))
        return cluster.get("Cluster", "anabranch-database")["spec"]["postgresql"]["parameters"]["max_connections"]

    pool = inspect.signature(Database.open).parameters["max_size"].default
    values = ChartValues()
    # While they roll there is one more API, and one more operator if it is the only one; each process listens by a
    # connection beside its pool, and has one for signs of life.
    apis, operators = values.api.autoscaling.max_replicas + 1, max(values.operator.replicas, 2)
    programs = apis * (pool + 2) + operators * (CONNECTIONS + 2)
    assert programs + 20 <= int(most({}))  # the rest is for the migration, for replication and for people
    assert most({"extraSpec": {"postgresql": {"parameters": {"max_connections": "500"}}}}) == "500"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"method": "any", "number": 1, "dataDurability": "required"}),
        (
            {"instances": 5, "synchronous": {"number": 2, "dataDurability": "preferred"}},
            {"method": "any", "number": 2, "dataDurability": "preferred"},
        ),
        ({"instances": 1}, None),
        ({"instances": 2, "synchronous": {"number": 2}}, None),
        ({"synchronous": {"number": 0}}, None),
    ],
)
def test_a_commit_in_cloudnativepg_waits_for_as_many_standbys_as_there_may_be(render, values, expected):
    cluster = render({"database": {"mode": "cloudnativepg", "cloudnativepg": values}}, apis=(CNPG,))
    assert cluster.get("Cluster", "anabranch-database")["spec"]["postgresql"].get("synchronous") == expected


def test_the_api_reads_from_cloudnativepgs_standbys_where_there_are_any(render):
    def env(**values):
        rendered = render({"database": {"mode": "cloudnativepg", "cloudnativepg": values}}, apis=(CNPG,))
        dsns = rendered.get("Secret", "anabranch-database-api")["stringData"]
        assert dsns["dsn-ro"] == dsns["dsn"].replace("anabranch-database-rw.", "anabranch-database-ro.")
        assert "dsn-ro" not in rendered.get("Secret", "anabranch-database-operator")["stringData"]
        return rendered.env("anabranch-api").get("ANABRANCH_API_DSN_RO")

    assert env() == ("anabranch-database-api", "dsn-ro")
    assert env(readFromStandbys=False) is None
    assert env(instances=1) is None


def test_cloudnativepg_has_to_be_installed(render):
    assert "install CloudNativePG first" in refused(render, CLOUDNATIVEPG)


def test_where_nothing_may_be_drawn_nothing_is_and_what_is_missing_is_said(render):
    given = {
        "generateSecrets": False,
        "api": {"cursorKeys": {"existingSecret": "keys", "key": "k"}, "tls": {"mode": "certManager"}},
    }
    for values, apis in ((EXISTING, ()), (TRIAL, ()), (CLOUDNATIVEPG, (CNPG,))):
        rendered = render({**values, **given}, apis=apis)
        assert not rendered.of("Secret")
        assert rendered.env("anabranch-api")["ANABRANCH_CURSOR_KEYS"] == ("keys", "k")
    no_keys = {"generateSecrets": False, "api": {"tls": {"mode": "certManager"}}}
    assert "generateSecrets is false, so api.cursorKeys.existingSecret" in refused(render, {**EXISTING, **no_keys})
    no_tls = {"generateSecrets": False, "api": {"cursorKeys": {"existingSecret": "keys"}}}
    assert "generateSecrets is false, so api.tls.mode" in refused(render, {**EXISTING, **no_tls})


# The certificate


def mounted(rendered):
    found = [each for each in rendered.pod("anabranch-api")["volumes"] if each["name"] == "tls"]
    return found[0]["secret"]["secretName"] if found else None


@pytest.mark.parametrize(
    ("mode", "apis", "secret"),
    [
        ("auto", (), "anabranch-api-tls"),
        ("auto", (CERT_MANAGER,), "anabranch-api-certificate"),
        ("generated", (CERT_MANAGER,), "anabranch-api-tls"),
        ("certManager", (), "anabranch-api-certificate"),
        ("existingSecret", (), "own"),
        ("disabled", (CERT_MANAGER,), None),
    ],
)
def test_the_certificate_comes_from_where_the_mode_says(render, mode, apis, secret):
    rendered = render({**EXISTING, "api": {"tls": {"mode": mode, "existingSecret": "own"}}}, apis=apis)
    assert mounted(rendered) == secret
    scheme = "HTTPS" if secret else "HTTP"
    container = rendered.container("anabranch-api")
    assert {container[probe]["httpGet"]["scheme"] for probe in ("livenessProbe", "readinessProbe")} == {scheme}
    assert ("ANABRANCH_TLS_CERT" in rendered.env("anabranch-api")) is bool(secret)
    assert rendered.env("anabranch-test")["ANABRANCH_URL"].startswith(scheme.lower() + "://")
    assert ("SSL_CERT_FILE" in rendered.env("anabranch-test")) is bool(secret)
    assert ("anabranch-api-tls" in rendered.names("Secret")) is (secret == "anabranch-api-tls")
    assert bool(rendered.of("Certificate")) is (secret == "anabranch-api-certificate")


def test_a_secret_of_ones_own_has_to_be_named(render):
    assert "api.tls.existingSecret is needed" in refused(
        render, {**EXISTING, "api": {"tls": {"mode": "existingSecret"}}}
    )


def test_cert_manager_issues_for_every_name_of_the_service(render):
    tls = {"mode": "certManager", "extraNames": ["memory.example"], "duration": "720h"}
    rendered = render({**EXISTING, "api": {"tls": tls}})
    spec = rendered.get("Certificate", "anabranch-api")["spec"]
    assert {f"anabranch-api.{NAMESPACE}.svc", "anabranch-api", "memory.example"} <= set(spec["dnsNames"])
    assert (spec["duration"], spec["secretName"]) == ("720h", "anabranch-api-certificate")
    issuer = rendered.get("Issuer", spec["issuerRef"]["name"])
    authority = rendered.get("Certificate", "anabranch-api-authority")["spec"]
    assert issuer["spec"]["ca"]["secretName"] == authority["secretName"]
    assert authority["isCA"] is True
    assert authority["issuerRef"]["name"] in rendered.names("Issuer")


def test_cert_manager_can_be_told_who_signs(render):
    reference = {"name": "corporate", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    rendered = render({**EXISTING, "api": {"tls": {"mode": "certManager", "issuerRef": reference}}})
    assert rendered.get("Certificate", "anabranch-api")["spec"]["issuerRef"] == reference
    assert not rendered.of("Issuer")


def test_the_temporary_files_of_an_api_pod_are_bounded_and_the_bound_is_a_value(render):
    def bound(values):
        deployment = render({**EXISTING, **values}).get("Deployment", "anabranch-api")
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        return next(volume["emptyDir"] for volume in volumes if volume["name"] == "tmp")

    assert bound({}) == {"sizeLimit": "10Gi"}
    assert bound({"api": {"tmpSizeLimit": "20Gi"}}) == {"sizeLimit": "20Gi"}
    assert bound({"api": {"tmpSizeLimit": ""}}) == {}
    # Enough for all that one process lets in at once.
    assert parts.UPLOADS * ARCHIVE_BYTES + parts.EXPORTS * LINE_RECORDS * 64 <= 10 << 30


BACKUP_TARGETS = {
    "volume": {"folder": {"claim": "vault"}},
    "cloud": {
        "bucket": {
            "endpoint": "https://s3.example",
            "bucket": "memory",
            "prefix": "prod/",
            "credentialsSecret": "s3-keys",
            "caSecret": "s3-ca",
        }
    },
    "database": {"cloudNativePG": {"namespace": "postgres", "cluster": "main", "method": "volumeSnapshot"}},
}


def test_the_operator_reads_each_backup_target_where_its_volume_is_mounted(render):
    rendered = render({**EXISTING, "backupTargets": BACKUP_TARGETS})
    written = rendered.get("ConfigMap", "anabranch-operator")["data"]["config.yaml"]
    targets = Configuration.parse(yaml.safe_load(written)).backup_targets
    mounts = {mount["name"]: mount for mount in rendered.container("anabranch-operator")["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in rendered.pod("anabranch-operator")["volumes"]}
    assert targets["volume"].folder.path == mounts["backups-volume"]["mountPath"]
    assert volumes["backups-volume"]["persistentVolumeClaim"]["claimName"] == "vault"
    assert not mounts["backups-volume"].get("readOnly")
    bucket, mount = targets["cloud"].bucket, mounts["backups-cloud"]
    assert (bucket.bucket, bucket.prefix, mount["readOnly"]) == ("memory", "prod/", True)
    paths = {
        f"{mount['mountPath']}/{item['path']}": (source["secret"]["name"], item["key"])
        for source in volumes["backups-cloud"]["projected"]["sources"]
        for item in source["secret"]["items"]
    }
    assert paths[bucket.ca_file] == ("s3-ca", "ca.crt")
    for key in ("access-key-id", "secret-access-key", "session-token"):
        assert paths[f"{bucket.credentials_folder}/{key}"] == ("s3-keys", key)
    assert targets["database"].cloud_native_pg.cluster == "main"
    assert "backups-database" not in volumes


def test_the_operator_may_order_backups_of_the_database_in_its_namespace_alone(render):
    rendered = render({**EXISTING, "backupTargets": BACKUP_TARGETS})
    role = rendered.get("Role", "anabranch-backups-database")
    assert role["metadata"]["namespace"] == "postgres"
    assert role["rules"] == [
        {"apiGroups": ["postgresql.cnpg.io"], "resources": ["backups"], "verbs": ["create", "get"]}
    ]
    (subject,) = rendered.get("RoleBinding", "anabranch-backups-database")["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", "anabranch-operator")
    assert not {name for name in render().names("Role") if "backups" in name}


def test_the_operator_reaches_a_bucket_and_no_one_of_two_kinds_is_a_target(render):
    def lets_out(targets):
        policy = render({**EXISTING, "backupTargets": targets}).get("NetworkPolicy", "anabranch-operator")
        return [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]].count(443)

    assert lets_out({"cloud": BACKUP_TARGETS["cloud"]}) == lets_out({"volume": BACKUP_TARGETS["volume"]}) + 1
    for wrong in ({**BACKUP_TARGETS["volume"], **BACKUP_TARGETS["cloud"]}, {}, {"folder": {"path": "/"}}):
        with pytest.raises(HelmError):
            render({**EXISTING, "backupTargets": {"wrong": wrong}})
