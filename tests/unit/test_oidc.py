"""ID tokens of people: what the API server would take is taken, under its names, and nothing else ever."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
import warnings

import jwt
import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response
from tests import issuer as issuers
from tests.issuer import CLIENT, Key, forged

from anabranch.identity import Identity
from anabranch.identity.oidc import Issuer, OidcSettings, People
from anabranch.identity.oidc.document import FRESH_SECONDS, PAUSE_SECONDS, SOON_SECONDS, STALE_SECONDS
from anabranch.identity.oidc.issuer import ANSWER_BYTES, IssuerUnavailableError
from anabranch.model.errors import InvalidInputError, UnauthenticatedError

KEYS = "/keys"
ABOUT = "/.well-known/openid-configuration"
OTHER = Key("first")
WEAK = Key("weak", bits=1024)


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture(scope="module")
async def served(tmp_path_factory):
    async with issuers.running(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture
async def issuer(served):
    """The issuer, as good as new."""
    yield served
    served.keys[1:] = []
    served.asked.clear()
    served.answers.clear()


@pytest.fixture(scope="module")
async def asked(served):
    """The issuer, as somebody sees it who knows its keys already."""
    made = Issuer(OidcSettings.parse(served.settings()))
    await made.keys(None)
    yield made
    await made.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def people(issuer, clock):
    """Makes a reader of the issuer's tokens."""
    made = []

    def make(**settings):
        parsed = OidcSettings.parse(issuer.settings(**settings))
        made.append(Issuer(parsed, clock=clock))
        return People(parsed, made[-1])

    yield make
    for each in made:
        await each.close()


@pytest.mark.parametrize(
    ("settings", "claims", "name", "groups"),
    [
        ({}, {}, "{issuer}#rosa", ()),
        ({"usernamePrefix": "-"}, {}, "rosa", ()),
        ({"usernamePrefix": "oidc:"}, {}, "oidc:rosa", ()),
        ({"usernameClaim": "email"}, {"email": "r@x"}, "r@x", ()),
        ({"usernameClaim": "email"}, {"email": "r@x", "email_verified": True}, "r@x", ()),
        ({"usernameClaim": "email", "usernamePrefix": "oidc:"}, {"email": "r@x"}, "oidc:r@x", ()),
        ({"usernameClaim": "name"}, {"name": "R"}, "{issuer}#R", ()),
        ({"groupsClaim": "groups"}, {"groups": ["a", "b"]}, "{issuer}#rosa", ("a", "b")),
        ({"groupsClaim": "groups", "groupsPrefix": "o:"}, {"groups": "a"}, "{issuer}#rosa", ("o:a",)),
        ({"groupsClaim": "groups"}, {"groups": []}, "{issuer}#rosa", ()),
        ({"groupsClaim": "groups"}, {}, "{issuer}#rosa", ()),
        ({}, {"groups": ["a"]}, "{issuer}#rosa", ()),
        ({"requiredClaims": {"hd": "x"}}, {"hd": "x"}, "{issuer}#rosa", ()),
        ({}, {"aud": ["other", CLIENT]}, "{issuer}#rosa", ()),
        ({"groupsClaim": "groups"}, {"groups": ["system:masters", "a"]}, "{issuer}#rosa", ("a",)),
    ],
)
async def test_claims_and_prefixes_mean_what_they_do_to_the_api_server(issuer, asked, settings, claims, name, groups):
    caller = await People(OidcSettings.parse(issuer.settings(**settings)), asked).caller(issuer.token(**claims))
    assert caller.username == name.format(issuer=issuer.url)
    assert caller.groups == (*groups, "system:authenticated")
    assert caller.service_account is None


@pytest.mark.parametrize(
    ("settings", "claims", "complaint"),
    [
        ({}, {"aud": "other"}, "not meant for the client"),
        ({}, {"aud": ["other"]}, "not meant for the client"),
        ({}, {"aud": None}, "not meant for the client"),
        ({}, {"aud": {CLIENT: 1}}, "not meant for the client"),
        ({}, {"iss": "https://localhost:1"}, "of another issuer"),
        ({}, {"iss": None}, "of another issuer"),
        ({}, {"exp": int(time.time()) - 1}, "has expired"),
        ({}, {"exp": None}, "does not say when"),
        ({}, {"exp": "9999999999"}, "does not say when"),
        ({}, {"exp": True}, "does not say when"),
        ({}, {"exp": float("nan")}, "does not say when"),
        ({}, {"nbf": time.time() + 300}, "not good yet"),
        ({}, {"sub": None}, "no text as its claim 'sub'"),
        ({}, {"sub": ""}, "no text as its claim 'sub'"),
        ({}, {"sub": 7}, "no text as its claim 'sub'"),
        ({"usernameClaim": "email"}, {"email": "r@x", "email_verified": False}, "not verified the address"),
        ({"usernameClaim": "email"}, {"email": "r@x", "email_verified": "true"}, "not verified the address"),
        ({"groupsClaim": "groups"}, {"groups": {"a": 1}}, "no list of texts"),
        ({"groupsClaim": "groups"}, {"groups": ["a", 1]}, "no list of texts"),
        ({"requiredClaims": {"hd": "x"}}, {}, "'hd' is not 'x'"),
        ({"requiredClaims": {"hd": "x"}}, {"hd": "y"}, "'hd' is not 'x'"),
        ({"usernamePrefix": "-"}, {"sub": "system:serviceaccount:team:scout"}, "one of the cluster's own"),
        ({"usernamePrefix": "sys"}, {"sub": "tem:admin"}, "one of the cluster's own"),
    ],
)
async def test_a_token_that_is_not_for_here_or_not_of_now_is_refused(issuer, asked, settings, claims, complaint):
    known = People(OidcSettings.parse(issuer.settings(**settings)), asked)
    with pytest.raises(UnauthenticatedError, match=complaint):
        await known.caller(issuer.token(**claims))


async def test_what_the_issuer_has_not_signed_is_refused_however_it_is_signed(issuer, people):
    known, good = people(), issuer.usual()
    key = issuer.keys[0]
    head, _, signature = issuer.token().split(".")
    body = base64.urlsafe_b64encode(json.dumps({**good, "sub": "admin"}).encode()).decode().rstrip("=")
    secret = {"kid": "first"}
    for token, complaint in [
        (forged(good), "signed by 'none'"),
        (forged(good, alg="None"), "signed by 'None'"),
        (forged(good, alg=""), "signed by ''"),
        (forged(good, alg=None), "signed by 'None'"),
        (forged(good, alg="RS256", kid="first"), "not signed by any key"),
        (forged(good, alg="RS256"), "not signed by any key"),
        (_by_secret(good, key.pem, secret), "signed by 'HS256'"),
        (_by_secret(good, json.dumps(key.public).encode(), secret), "signed by 'HS256'"),
        (f"{head}.{body}.{signature}", "not signed by any key"),
        (OTHER.sign(good), "not signed by any key"),
        (OTHER.sign(good, jwk=OTHER.public, jku="https://evil.example/keys"), "not signed by any key"),
        (Key("first", "ES256").sign(good), "signed by 'ES256'"),
        (key.sign(good, crit=["exp"], exp=1), "no good|cannot be read"),
        (key.sign(good, typ="at+jwt"), "no ID token"),
        (key.sign(good, typ="logout+jwt"), "no ID token"),
        (forged(good, alg="RS256", kid=7), "cannot be read"),
        ("a.b.c", "cannot be read"),
        (jwt.PyJWS().encode(b"[]", key.private, "RS256", {"kid": "first"}), "no claims"),
        (jwt.PyJWS().encode(b"[" * 100_000, key.private, "RS256", {"kid": "first"}), "no claims"),
    ]:
        with pytest.raises(UnauthenticatedError, match=complaint):
            await known.caller(token)
    assert (await known.caller(issuer.token())).username.endswith("#rosa")


def _by_secret(claims, secret, head):
    """A token by a shared secret: the issuer's public key, which anybody has."""
    signed = forged(claims, alg="HS256", **head).rstrip(".")
    mark = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(mark).decode().rstrip('=')}"


async def test_keys_that_are_too_short_or_not_for_signatures_sign_nothing(issuer, people):
    encrypting = Key("encrypting")
    answer = [
        WEAK.public,
        {**encrypting.public, "use": "enc"},
        {"kty": ["RSA"]},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "s"},
        7,
    ]
    issuer.answers[KEYS] = JSONResponse({"keys": answer})
    known = people()
    with warnings.catch_warnings(action="ignore"):  # of the weak key
        tokens = [key.sign(issuer.usual()) for key in (WEAK, encrypting)]
    for token in tokens:
        with pytest.raises(UnauthenticatedError, match="not signed by any key"):
            await known.caller(token)


async def test_other_signatures_are_taken_where_the_installation_says_so(issuer, people):
    key = Key("second", "ES256")
    issuer.keys.append(key)
    assert (await people(signingAlgs=["RS256", "ES256"]).caller(key.sign(issuer.usual()))).username.endswith("#rosa")
    # A key that is there for one algorithm is none for another.
    with pytest.raises(UnauthenticatedError, match="not signed by any key"):
        await people(signingAlgs=["PS256"]).caller(
            jwt.encode(issuer.usual(), issuer.keys[0].private, "PS256", headers={"kid": "first"})
        )


async def test_a_new_key_is_found_and_a_withdrawn_one_is_believed_for_ten_minutes(issuer, people, clock):
    known, old = people(), issuer.keys[0]
    await known.caller(issuer.token())
    clock.now += PAUSE_SECONDS
    issuer.keys[:] = [Key("new")]
    try:
        await known.caller(issuer.token())
        assert issuer.asked.count(KEYS) == 2
        with pytest.raises(UnauthenticatedError, match="not signed by any key"):
            await known.caller(old.sign(issuer.usual()))
        withdrawn, issuer.keys[:] = issuer.keys[0], [old]
        await known.caller(withdrawn.sign(issuer.usual()))
        clock.now += FRESH_SECONDS
        with pytest.raises(UnauthenticatedError, match="not signed by any key"):
            await known.caller(withdrawn.sign(issuer.usual()))
        assert issuer.asked.count(KEYS) == 3
    finally:
        issuer.keys[:] = [old]


async def test_a_flood_of_unknown_keys_makes_no_flood_of_requests(issuer, people, clock):
    known = people()
    await known.caller(issuer.token())
    strange = Key("x")
    tokens = [strange.sign(issuer.usual(), kid=f"unknown-{number}") for number in range(50)]
    for _ in range(2):
        answers = await asyncio.gather(*map(known.caller, tokens), return_exceptions=True)
        assert all(isinstance(answer, UnauthenticatedError) for answer in answers)
    assert issuer.asked.count(KEYS) == 1
    clock.now += PAUSE_SECONDS
    await asyncio.gather(*map(known.caller, tokens), return_exceptions=True)
    assert issuer.asked.count(KEYS) == 2
    assert issuer.asked.count(ABOUT) == 1


async def test_an_issuer_that_is_down_is_told_of_and_asked_again_later(issuer, people, clock):
    known, token = people(), issuer.token()
    issuer.answers[ABOUT] = 503
    for _ in range(3):
        with pytest.raises(IssuerUnavailableError, match="answered with 503"):
            await known.caller(token)
    assert issuer.asked == [ABOUT]
    issuer.answers.clear()
    clock.now += SOON_SECONDS
    assert (await known.caller(token)).username.endswith("#rosa")
    issuer.answers[KEYS] = 500
    clock.now += FRESH_SECONDS
    for _ in range(3):
        assert (await known.caller(token)).username.endswith("#rosa")
    assert issuer.asked.count(KEYS) == 2
    clock.now += STALE_SECONDS
    with pytest.raises(IssuerUnavailableError, match="answered with 500"):
        await known.caller(token)


async def test_an_issuer_that_makes_no_sense_is_not_believed(issuer, people, clock):
    about = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
    known, token = people(), issuer.token()
    for path, answer, complaint in [
        (ABOUT, JSONResponse({**about, "issuer": f"{issuer.url}/"}), "says that it is"),
        (ABOUT, JSONResponse({**about, "jwks_uri": "http://localhost/keys"}), "no https URL as jwks_uri"),
        (ABOUT, JSONResponse({**about, "token_endpoint": "file:///etc/passwd"}), "no https URL as token_endpoint"),
        (ABOUT, RedirectResponse(f"{issuer.url}/elsewhere"), "answered with 307"),
        (ABOUT, Response("<html>"), "no JSON"),
        (ABOUT, Response("[" * 100_000), "no JSON"),
        (ABOUT, Response(b"x" * (ANSWER_BYTES + 1)), "more than"),
        (KEYS, JSONResponse({"keys": {}}), "no list of keys"),
    ]:
        issuer.answers = {path: answer}
        with pytest.raises(IssuerUnavailableError, match=complaint):
            await known.caller(token)
        clock.now += PAUSE_SECONDS
    assert "/elsewhere" not in issuer.asked


async def test_a_server_that_its_authority_does_not_vouch_for_is_not_the_issuer(issuer, tmp_path):
    settings = OidcSettings.parse({**issuer.settings(), "caFile": None})
    asked = Issuer(settings)
    with pytest.raises(IssuerUnavailableError, match="cannot be reached at"):
        await asked.metadata()
    await asked.close()
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(InvalidInputError, match="authorities cannot be read"):
        Issuer(settings.model_copy(update={"ca_file": tmp_path / "ca.crt"}))


class ApiServer:
    """An API server that knows nobody, and counts who asks."""

    def __init__(self):
        self.asked = 0

    async def create(self, _kind, _body):
        self.asked += 1
        return {"status": {"authenticated": False}}


async def test_only_tokens_of_the_issuer_go_its_way_and_no_others_do(issuer, people):
    server = ApiServer()
    identity = Identity(server, audience="anabranch", people=people(usernamePrefix="-"))
    assert (await identity.authenticate(issuer.token())).username == "rosa"
    assert (await identity.authenticate(issuer.token(), anew=True, stale=True)).username == "rosa"
    assert server.asked == 0
    with pytest.raises(UnauthenticatedError, match="has expired"):
        await identity.authenticate(issuer.token(exp=1))
    assert server.asked == 0
    asked = len(issuer.asked)
    with pytest.raises(UnauthenticatedError, match="The cluster does not accept"):
        await identity.authenticate(issuer.token(iss="https://kubernetes.default.svc", aud="anabranch"))
    assert (server.asked, len(issuer.asked)) == (1, asked)


async def test_a_token_for_calls_inside_the_process_is_good_for_the_length_of_a_block(people, issuer):
    identity = Identity(ApiServer(), audience="anabranch")
    person = await people().caller(issuer.token())
    with identity.vouching(person) as token:
        assert await identity.authenticate(token) == person
        with pytest.raises(UnauthenticatedError):
            await identity.authenticate(token[:-1])
    with pytest.raises(UnauthenticatedError):
        await identity.authenticate(token)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"issuer": "http://localhost"}, "issuer"),
        ({"issuer": "https://x/?a=b"}, "issuer"),
        ({"issuer": "https://user@x"}, "issuer"),
        ({"clientId": ""}, "clientId"),
        ({"signingAlgs": ["HS256"]}, "signingAlgs"),
        ({"signingAlgs": ["none"]}, "signingAlgs"),
        ({"signingAlgs": []}, "signingAlgs"),
        ({"publicUrl": "http://memory.example"}, "publicUrl"),
        ({"publicUrl": "https://memory.example/ui"}, "publicUrl"),
        ({"userClaim": "x"}, "userClaim"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_by_name(change, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        OidcSettings.parse({"issuer": "https://x", "clientId": "c", **change})
