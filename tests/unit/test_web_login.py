"""Nobody comes in but whom the issuer sends back to the browser that set out for it, and nobody is led elsewhere."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount
from tests import issuer as issuers
from tests.store import spans
from tests.unit.test_web_guard import JOB, FakeDesk, form

from anabranch.api.measured import Measured
from anabranch.api.people import _Counted
from anabranch.identity.oidc import Issuer, OidcSettings, People
from anabranch.model.errors import InvalidInputError
from anabranch.telemetry.of_api import API
from anabranch.web.app import create
from anabranch.web.login import LOGIN, LOGIN_SECONDS, SESSION, Login, LoginGate
from anabranch.web.sessions import Sealing

OURS = "https://memory.example"
CALLBACK = f"{OURS}/ui/callback"
KEY, NEWER = b"k" * 32, b"n" * 32


class Desks(dict):
    """The desks that were opened, by person."""

    def __call__(self, caller):
        desk = self.setdefault(caller.username, FakeDesk())
        desk.person, desk.groups = caller.username, caller.groups
        return desk


@pytest.fixture(scope="module")
async def served(tmp_path_factory):
    async with issuers.running(tmp_path_factory.mktemp("issuer")) as issuer:
        issuer.redirects.add(CALLBACK)
        yield issuer


@pytest.fixture
def issuer(served):
    """The issuer, as good as new."""
    served.claims = {"rosa": {"groups": ["reviewers"]}, "tom": {}}
    yield served
    served.answers.clear()
    served.asked.clear()


@pytest.fixture
def desks():
    return Desks()


@pytest.fixture
async def replica(issuer, desks, tmp_path):
    """Makes the pages, as one replica serves them; by keys, and settings."""
    (tmp_path / "secret").write_text(f"{issuers.SECRET}\n")
    made = []

    def make(*keys, **more):
        file = str(tmp_path / "secret")
        usual = {"usernamePrefix": "-", "groupsClaim": "groups", "publicUrl": OURS, "clientSecretFile": file}
        settings = OidcSettings.parse(issuer.settings(**{**usual, **more}))
        made.append(Issuer(settings))
        login = Login(settings=settings, issuer=made[-1], people=People(settings, made[-1]), keys=keys or (KEY,))
        gate = LoginGate(login, public_url=settings.public_url, base="/ui", desk=desks)
        return Starlette(routes=[Mount("/ui", create(gate))])

    yield make
    for each in made:
        await each.close()


def browser_of(app, **more):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=OURS, **more)


@pytest.fixture
async def browser(replica):
    async with browser_of(replica()) as browser:
        yield browser


async def set_out(browser, to="/"):
    """The issuer's address that a browser is sent to, and what it is asked there."""
    answer = await browser.get("/ui/login", params={"to": to})
    assert answer.status_code == 303, answer.text
    place = urlsplit(answer.headers["location"])
    return place, {name: value for name, (value,) in parse_qs(place.query).items()}


async def come_back(browser, issuer, asked, person="rosa", **changes):
    given = {"code": issuer.code(person, asked), "state": asked["state"], "iss": issuer.url, **changes}
    return await browser.get("/ui/callback", params={name: value for name, value in given.items() if value is not None})


async def log_in(browser, issuer, person="rosa", to="/"):
    _, asked = await set_out(browser, to)
    answer = await come_back(browser, issuer, asked, person)
    assert answer.status_code == 303, answer.text
    return answer


async def test_a_span_of_a_page_tells_nothing_of_a_login_nor_of_what_is_looked_at(issuer, replica):
    with spans.recorded() as seen:
        async with browser_of(Measured(_Counted(replica()))) as browser:
            _, asked = await set_out(browser)
            code = issuer.code("rosa", asked)
            back = await browser.get("/ui/callback", params={"code": code, "state": asked["state"], "iss": issuer.url})
            page = await browser.get(f"/ui{JOB}?c=swordfish", headers={"X-Request-ID": "r-1"})
            assert (back.status_code, page.status_code) == (303, 200)
            words = [code, asked["state"], asked["nonce"], "swordfish", "rosa", *browser.cookies.values()]
    assert {span.name for span in seen.spans} == {"GET /ui"}
    assert not [text for text in seen.texts() for word in words if word in text]


async def test_a_person_logs_in_decides_and_logs_out(browser, issuer, desks):
    stranger = await browser.get(f"/ui{JOB}?c=1&d=2")
    assert (stranger.status_code, "j-held" in stranger.text.replace("jobs%2Fmemory%2Fj-held", "")) == (403, False)
    (onward,) = re.findall(r'http-equiv="refresh" content="0; url=([^"]*)"', stranger.text)
    assert onward == "/ui/login?to=%2Fjobs%2Fmemory%2Fj-held%3Fc%3D1%26d%3D2"
    answer = await browser.get(onward)
    place = urlsplit(answer.headers["location"])
    asked = {name: value for name, (value,) in parse_qs(place.query).items()}
    assert f"{place.scheme}://{place.netloc}{place.path}" == f"{issuer.url}/login"
    assert (asked["redirect_uri"], asked["code_challenge_method"]) == (CALLBACK, "S256")
    assert asked["scope"] == "openid profile email"
    back = await come_back(browser, issuer, asked)
    assert (back.status_code, back.headers["location"]) == (303, f"/ui{JOB}?c=1&d=2")
    page = await browser.get(back.headers["location"])
    assert page.status_code == 200
    assert desks["rosa"].groups == ("reviewers", "system:authenticated")
    token = re.search(r'name="token" value="([0-9a-f]{64})"', page.text)[1]
    done = await browser.post(f"/ui{JOB}", data=form(token), headers={"Origin": OURS})
    assert done.status_code == 303
    assert desks["rosa"].decided == [("memory", "j-held", "accept", "", set())]
    gone = await browser.post("/ui/logout", data={"token": token}, headers={"Origin": OURS})
    assert (gone.status_code, gone.headers["location"]) == (303, "/ui/bye")
    bye = await browser.get("/ui/bye")
    assert f'href="{issuer.url}/logout?client_id=anabranch&amp;post_logout_redirect_uri=' in bye.text
    assert (await browser.get("/ui/")).status_code == 403


async def test_cookies_are_of_this_host_alone_and_out_of_reach_of_scripts(browser, issuer):
    answer = await browser.get("/ui/login")
    way = answer.headers["set-cookie"]
    _, asked = await set_out(browser)
    session = (await come_back(browser, issuer, asked)).headers.get_list("set-cookie")[0]
    for text, name, seconds in ((way, LOGIN, LOGIN_SECONDS), (session, SESSION, 3600)):
        assert text.startswith(f"{name}=gAAAA")
        assert {part.strip().lower() for part in text.split(";")[1:]} == {
            *("httponly", "secure", "path=/", "samesite=lax", f"max-age={seconds}")
        }
    assert "rosa" not in session


async def test_another_replica_knows_whom_the_first_one_let_in_also_by_the_older_of_two_keys(replica, issuer, desks):
    async with browser_of(replica()) as first:
        _, asked = await set_out(first)
        async with browser_of(replica(NEWER, KEY), cookies=first.cookies) as second:
            assert (await come_back(second, issuer, asked)).status_code == 303
            session = second.cookies
            assert (await second.get("/ui/")).status_code == 200
        async with browser_of(replica(KEY), cookies=session) as old:
            assert (await old.get("/ui/")).status_code == 403
        async with browser_of(replica(NEWER), cookies=session) as new:
            assert (await new.get("/ui/")).status_code == 200
    assert set(desks) == {"rosa"}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"state": "another"}, "has not set out for this login"),
        ({"state": ""}, "has not set out for this login"),
        ({"state": None}, "has not set out for this login"),
        ({"iss": "https://evil.example"}, "Another issuer"),
        ({"iss": None}, "Another issuer"),
        ({"code": "guessed"}, "gives no token"),
        ({"code": None, "error": "access_denied"}, "has not let you in: access_denied"),
        ({"code": None, "error": "<script>alert(1)</script>"}, "has not let you in: &lt;script&gt;"),
        ({"code": None}, "it gave no reason"),
    ],
)
async def test_what_is_not_the_answer_to_its_own_question_lets_nobody_in(browser, issuer, desks, changes, complaint):
    _, asked = await set_out(browser)
    answer = await come_back(browser, issuer, asked, **changes)
    assert answer.status_code == 403
    assert complaint in answer.text
    assert SESSION not in browser.cookies
    # And the way is used up: what is sent again finds nothing.
    assert "has not set out for this login" in (await come_back(browser, issuer, asked)).text
    assert desks == {}


async def test_a_login_counts_once_and_in_its_own_browser(replica, issuer):
    app = replica()
    async with browser_of(app) as hers, browser_of(app) as his:
        _, asked = await set_out(hers)
        code = issuer.code("rosa", asked)
        # Somebody is made to come back with the code of another's login.
        _, own = await set_out(his)
        for state in (asked["state"], own["state"]):
            assert (await come_back(his, issuer, asked, code=code, state=state)).status_code == 403
            assert SESSION not in his.cookies
            _, own = await set_out(his)
        code = issuer.code("rosa", asked)
        way = hers.cookies[LOGIN]
        assert (await come_back(hers, issuer, asked, code=code)).status_code == 303
        # The same again, even by who has kept a copy of the cookie: the issuer gives a token for a code once.
        his.cookies.set(LOGIN, way, domain="memory.example", path="/")
        assert (await come_back(his, issuer, asked, code=code)).status_code == 403
        assert SESSION not in his.cookies


@pytest.mark.parametrize(
    ("claims", "complaint"),
    [
        ({"nonce": "another"}, "of another login"),
        ({"nonce": None}, "of another login"),
        ({"aud": "other"}, "not meant for the client"),
        ({"aud": ["anabranch", "other"], "azp": "other"}, "given to another client"),
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"exp": 1}, "has expired"),
        ({"sub": "system:admin"}, "one of the cluster"),
        ({"groups": 7}, "no list of texts"),
        (
            {"groups": [f"{number:x}" * 9 for number in range(10_000, 14_000, 3)]},
            "You are in many groups|browsers keep",
        ),
    ],
)
async def test_a_token_that_is_not_for_this_login_lets_nobody_in(browser, issuer, desks, claims, complaint):
    issuer.claims["rosa"] = claims
    _, asked = await set_out(browser)
    answer = await come_back(browser, issuer, asked)
    assert answer.status_code == 403
    assert re.search(complaint, answer.text)
    assert SESSION not in browser.cookies
    assert desks == {}


async def test_a_session_that_was_there_before_is_not_gone_on_with(browser, issuer, desks):
    await log_in(browser, issuer, "tom")
    before = browser.cookies[SESSION]
    token = re.search(r'name="token" value="([0-9a-f]{64})"', (await browser.get("/ui/")).text)[1]
    await log_in(browser, issuer, "rosa")
    assert browser.cookies[SESSION] != before
    answer = await browser.post(f"/ui{JOB}", data=form(token), headers={"Origin": OURS})
    assert (answer.status_code, "another visit" in answer.text) == (403, True)
    assert desks["rosa"].decided == desks["tom"].decided == []


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "",
        "@evil.example",
        "/\r\nX: y",
    ],
)
async def test_a_login_leads_nowhere_but_to_our_pages(browser, issuer, to):
    answer = await log_in(browser, issuer, to=to)
    assert answer.headers["location"] == "/ui/"
    assert "x" not in answer.headers


@pytest.mark.parametrize("cookie", ["", "x", "gAAAA", "é", "g" * 5_000])
async def test_a_cookie_that_is_not_ours_is_none(browser, issuer, cookie):
    await log_in(browser, issuer)
    good = browser.cookies[SESSION]
    for text in (cookie, good[:-4], good[:99] + ("A" if good[99] != "A" else "B") + good[100:]):
        async with browser_of(browser._transport.app) as other:
            answer = await other.get("/ui/", headers={"Cookie": f"{SESSION}={text}".encode()})
            assert answer.status_code == 403


async def test_what_was_sealed_for_one_purpose_or_time_opens_for_no_other(browser, issuer):
    way = (await browser.get("/ui/login")).cookies[LOGIN]
    browser.cookies.set(SESSION, way, domain="memory.example", path="/")
    assert (await browser.get("/ui/")).status_code == 403
    now = 1_000.0
    sealing = Sealing([KEY], "session", seconds=60, now=lambda: now)
    sealed = sealing.seal({"name": "rosa"})
    assert sealing.open(sealed) == {"name": "rosa"}
    assert Sealing([KEY], "login", seconds=60, now=lambda: now).open(sealed) is None
    now += 60
    assert sealing.open(sealed) is None
    for keys in ((), (b"short",)):
        with pytest.raises(InvalidInputError, match="ANABRANCH_SESSION_KEYS"):
            Sealing(keys, "session", seconds=60)


async def test_other_settings_make_other_people_of_the_same_claims(replica, issuer):
    async with browser_of(replica()) as browser:
        await log_in(browser, issuer)
        session = browser.cookies
    async with browser_of(replica(usernamePrefix="oidc:"), cookies=session) as browser:
        assert (await browser.get("/ui/")).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "memory.example.evil.example", "memory.example:8443", ""])
async def test_under_another_name_nothing_is_served(browser, issuer, host):
    await log_in(browser, issuer)
    for path in ("/ui/", "/ui/login", "/ui/callback"):
        answer = await browser.get(path, headers={"Host": host})
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
    assert (await browser.get("/ui/", headers={"Host": "MEMORY.example:443"})).status_code == 200


async def test_no_other_site_decides_or_logs_out_through_a_browser(browser, issuer, desks):
    await log_in(browser, issuer)
    token = re.search(r'name="token" value="([0-9a-f]{64})"', (await browser.get("/ui/")).text)[1]
    for path, data in ((f"/ui{JOB}", form(token)), ("/ui/logout", {"token": token})):
        for headers in ({}, {"Origin": "null"}, {"Origin": "https://evil.example"}, {"Origin": issuer.url}):
            answer = await browser.post(path, data=data, headers=headers)
            assert answer.status_code == 403
        answer = await browser.post(path, data={**data, "token": "0" * 64}, headers={"Origin": OURS})
        assert answer.status_code == 403
    assert desks["rosa"].decided == []
    assert (await browser.get("/ui/")).status_code == 200


async def test_who_is_logged_in_no_more_decides_nothing_and_is_told(browser, desks):
    answer = await browser.post(f"/ui{JOB}", data=form("0" * 64), headers={"Origin": OURS})
    assert (answer.status_code, "Nothing was decided" in answer.text) == (403, True)
    assert "refresh" not in answer.text
    assert desks == {}


async def test_people_are_told_when_the_issuer_is_away(browser, issuer):
    issuer.answers = {"/.well-known/openid-configuration": 503}
    answer = await browser.get("/ui/login")
    assert (answer.status_code, "agents are served meanwhile" in answer.text) == (503, True)
    issuer.answers = {}


async def test_a_login_under_way_when_the_issuer_goes_may_be_gone_on_with(browser, issuer):
    _, asked = await set_out(browser)
    code = issuer.code("rosa", asked)
    issuer.answers = {"/token": 502}
    assert (await come_back(browser, issuer, asked, code=code)).status_code == 503
    issuer.answers = {}
    assert (await come_back(browser, issuer, asked, code=code)).status_code == 303
    issuer.answers = dict.fromkeys(("/.well-known/openid-configuration", "/keys", "/token"), 503)
    assert (await browser.get("/ui/")).status_code == 200  # who is in stays in


def logins() -> dict[str, float]:
    """How many there were, by outcome."""
    outcomes = ("let_in", "refused", "strange", "unavailable")
    return {each: API.registry.get_sample_value("anabranch_logins_total", {"outcome": each}) or 0 for each in outcomes}


async def test_logins_are_counted_by_what_became_of_them(browser, issuer):
    before = logins()
    await log_in(browser, issuer)
    _, asked = await set_out(browser)
    await come_back(browser, issuer, asked, code=None, error="access_denied")
    await browser.get("/ui/callback", params={"code": "guessed", "state": "guessed"})
    _, asked = await set_out(browser)
    code = issuer.code("rosa", asked)
    issuer.answers = {"/token": 502}
    await come_back(browser, issuer, asked, code=code)
    issuer.answers = {}
    assert {outcome: count - before[outcome] for outcome, count in logins().items()} == {
        "let_in": 1, "refused": 1, "strange": 1, "unavailable": 1,
    }  # fmt: skip


async def test_who_has_copied_a_session_has_it_until_its_end_or_until_its_key_is_withdrawn(replica, issuer):
    """A session is kept nowhere but in the browser, so logging out ends it there alone; docs/security.md says so."""
    async with browser_of(replica()) as browser:
        await log_in(browser, issuer)
        copied = browser.cookies[SESSION]
        page = await browser.get(f"/ui{JOB}")
        token = re.search(r'name="token" value="([0-9a-f]{64})"', page.text)[1]
        await browser.post("/ui/logout", data={"token": token}, headers={"Origin": OURS})
        assert SESSION not in browser.cookies
    async with browser_of(replica(), cookies={SESSION: copied}) as thief:
        assert (await thief.get("/ui/")).status_code == 200
    async with browser_of(replica(b"another key of thirty-two bytes or more"), cookies={SESSION: copied}) as thief:
        assert (await thief.get("/ui/")).status_code == 403


async def test_a_secret_is_shown_as_the_issuer_wants_it_and_a_public_client_has_none(replica, issuer):
    about = {
        "issuer": issuer.url,
        "jwks_uri": f"{issuer.url}/keys",
        "authorization_endpoint": f"{issuer.url}/login?tenant=a",
        "token_endpoint": f"{issuer.url}/post",
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    }
    seen = []

    async def token(scope, receive, send):
        body = (await receive())["body"].decode()
        seen.append((parse_qs(body), dict(scope["headers"]).get(b"authorization")))
        await JSONResponse({"error": "invalid_grant"}, status_code=400)(scope, receive, send)

    issuer.answers = {"/.well-known/openid-configuration": JSONResponse(about), "/post": token}
    for more in ({}, {"clientSecretFile": None}):
        async with browser_of(replica(**more)) as browser:
            place, asked = await set_out(browser)
            assert (place.path, asked["tenant"]) == ("/login", "a")
            assert "gives no token" in (await come_back(browser, issuer, asked, iss=None)).text
    (posted, one), (public, other) = seen
    assert (posted["client_secret"], posted["client_id"], one) == ([issuers.SECRET], ["anabranch"], None)
    assert ("client_secret" in public, public["client_id"], other) == (False, ["anabranch"], None)
