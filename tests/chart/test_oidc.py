"""People by an issuer: what the chart tells the API is what the API reads, and Secrets stay Secrets."""

from __future__ import annotations

import base64

import pytest
import yaml
from tests.chart.rendering import EXISTING, HelmError
from tests.chart.test_security import ports

from anabranch.api.settings import Settings
from anabranch.identity.oidc import OidcSettings
from anabranch.web.sessions import KEY_BYTES

ISSUER = {"issuer": "https://login.example/realms/work", "clientId": "anabranch"}
PAGES = {
    **ISSUER,
    "publicUrl": "https://memory.example",
    "clientSecret": {"name": "client"},
    "caSecret": {"name": "ca"},
}
CLAIMS = {
    "usernameClaim": "email",
    "usernamePrefix": "oidc:",
    "groupsClaim": "groups",
    "groupsPrefix": "oidc:",
    "requiredClaims": {"hd": "example.org"},
    "signingAlgs": ["ES256"],
    "scopes": ["openid", "groups"],
    "sessionMinutes": 30,
}


def values(oidc, **more):
    return {**EXISTING, "auth": {"oidc": oidc}, **more}


def told(rendered):
    return OidcSettings.parse(yaml.safe_load(rendered.get("ConfigMap", "anabranch-api-oidc")["data"]["oidc.yaml"]))


def test_without_an_issuer_nothing_of_it_is_there(render):
    rendered = render()
    assert "anabranch-api-oidc" not in rendered.names("ConfigMap")
    assert "anabranch-session-keys" not in rendered.names("Secret")
    assert not {"ANABRANCH_OIDC", "ANABRANCH_SESSION_KEYS"} & rendered.env("anabranch-api").keys()


def test_the_api_reads_what_the_chart_tells_it(render):
    assert told(render(values(ISSUER))) == OidcSettings.parse(ISSUER)
    settings = told(render(values({**PAGES, **CLAIMS})))
    files = {"clientSecretFile": "/etc/anabranch/oidc/client-secret", "caFile": "/etc/anabranch/oidc/ca.crt"}
    assert settings == OidcSettings.parse({**ISSUER, **CLAIMS, **files, "publicUrl": "https://memory.example"})


def test_its_files_are_where_the_api_looks_for_them(render, tmp_path):
    rendered = render(values(PAGES))
    environment = rendered.env("anabranch-api")
    assert environment["ANABRANCH_OIDC"] == "/etc/anabranch/oidc/oidc.yaml"
    (volume,) = [each for each in rendered.pod("anabranch-api")["volumes"] if each["name"] == "oidc"]
    config, client, ca = volume["projected"]["sources"]
    assert config == {"configMap": {"name": "anabranch-api-oidc"}}
    assert client["secret"] == {"name": "client", "items": [{"key": "client-secret", "path": "client-secret"}]}
    assert ca["secret"] == {"name": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    (mount,) = [each for each in rendered.container("anabranch-api")["volumeMounts"] if each["name"] == "oidc"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/anabranch/oidc", True)
    file = tmp_path / "oidc.yaml"
    file.write_text(rendered.get("ConfigMap", "anabranch-api-oidc")["data"]["oidc.yaml"])
    given = {"ANABRANCH_API_DSN": "postgresql://x", "ANABRANCH_CURSOR_KEYS": "k" * 32, "ANABRANCH_OIDC": str(file)}
    assert Settings.from_environment(given).oidc == told(rendered)


def test_keys_of_sessions_are_drawn_once_or_yours(render):
    rendered = render(values(PAGES))
    drawn = base64.b64decode(rendered.get("Secret", "anabranch-session-keys")["data"]["keys"])
    assert len(drawn) >= KEY_BYTES
    assert rendered.env("anabranch-api")["ANABRANCH_SESSION_KEYS"] == ("anabranch-session-keys", "keys")
    yours = render(values({**PAGES, "sessionKeys": {"existingSecret": "mine", "key": "k"}}))
    assert "anabranch-session-keys" not in yours.names("Secret")
    assert yours.env("anabranch-api")["ANABRANCH_SESSION_KEYS"] == ("mine", "k")
    assert "ANABRANCH_SESSION_KEYS" not in render(values(ISSUER)).env("anabranch-api")


def test_new_settings_make_new_pods_and_annotations_of_yours_stay(render):
    def annotations(oidc, **api):
        rendered = render(values(oidc, api={"annotations": {"team": "memory"}, **api}))
        return rendered.get("Deployment", "anabranch-api")["spec"]["template"]["metadata"]["annotations"]

    one, other = annotations(ISSUER), annotations({**ISSUER, "groupsClaim": "groups"})
    assert one["anabranch.dev/oidc"] != other["anabranch.dev/oidc"]
    assert one["team"] == other["team"] == "memory"


def test_only_the_api_may_reach_the_issuer_at_its_ports(render):
    policies = [render(values(oidc, networkPolicy={"oidcPorts": [8443]})) for oidc in ({}, ISSUER)]
    for name in ("anabranch-api", "anabranch-operator", "anabranch-migrate"):
        without, with_ = (ports(each.get("NetworkPolicy", name)["spec"]["egress"]) for each in policies)
        assert with_ - without == ({8443} if name == "anabranch-api" else set())


@pytest.mark.parametrize(
    ("oidc", "words"),
    [
        ({"issuer": "http://login.example"}, "at '/auth/oidc/issuer'"),
        ({"issuer": "https://login.example"}, "auth.oidc.clientId is needed"),
        ({"clientId": "anabranch"}, "auth.oidc.issuer is needed"),
        ({"publicUrl": "https://memory.example"}, "auth.oidc.issuer is needed"),
        ({**ISSUER, "publicUrl": "https://memory.example/ui"}, "at '/auth/oidc/publicUrl'"),
        ({**ISSUER, "signingAlgs": ["none"]}, "at '/auth/oidc/signingAlgs/0'"),
        ({**ISSUER, "sessionMinutes": 1}, "at '/auth/oidc/sessionMinutes'"),
    ],
)
def test_what_cannot_be_meant_is_refused(render, oidc, words):
    with pytest.raises(HelmError, match=words.replace(".", "[.]")):
        render(values(oidc))


def test_who_renders_without_the_cluster_is_told_which_secret_is_needed(render):
    more = {"generateSecrets": False, "api": {"cursorKeys": {"existingSecret": "k"}, "tls": {"mode": "disabled"}}}
    with pytest.raises(HelmError, match=r"auth\.oidc\.sessionKeys\.existingSecret is needed"):
        render(values(PAGES, **more))
    render(values({**PAGES, "sessionKeys": {"existingSecret": "mine"}}, **more))


def test_the_notes_say_where_people_review(helm):
    assert "https://memory.example/ui/callback" in helm.notes(values(PAGES))
    assert "/ui/" not in helm.notes(EXISTING)
