"""Identities and grants are asked once at a time, remembered for seconds, and never taken on trust."""

import asyncio
import base64
import json

import pytest

from anabranch.identity import Caller, Grants, Identity, answers, authentication, grants
from anabranch.identity.answers import Answers, BusyError
from anabranch.identity.authentication import WAITING
from anabranch.kube.errors import RightMissingError
from anabranch.kube.kinds import ACCESS_REVIEW, TOKEN_REVIEW
from anabranch.model.errors import ForbiddenError, NotFoundError, UnauthenticatedError, UnavailableError

AGENT = "system:serviceaccount:team:scout"
NOW = 1_900_000_000.0


def jwt(signature="forged", *, aud=("anabranch",), exp=NOW + 3600):
    """A token as the cluster mints them; the API server of these tests knows the genuine ones by their signature."""
    payload = json.dumps({"aud": list(aud) if isinstance(aud, tuple) else aud, "exp": exp}).encode()
    return f"e30.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.{signature}"


GOOD = jwt("good")


class ApiServer:
    """Answers reviews as an API server does, counts them, and can be away."""

    def __init__(self, *, audiences=("anabranch",), allowed=()):
        self.audiences = list(audiences)
        self.allowed = set(allowed)
        self.asked = []
        self.error = None
        self.starting = False
        self.unread = set()
        self.slow = asyncio.Event()
        self.slow.set()

    async def create(self, kind, body):
        self.asked.append((kind.name, body["spec"]))
        await self.slow.wait()
        if self.error is not None:
            raise self.error
        if kind is TOKEN_REVIEW:
            known = body["spec"]["token"].endswith(".good")
            user = {"username": AGENT, "uid": "u1", "groups": ["g"], "extra": {"pod": ["p"]}}
            return {"status": {"authenticated": known, "audiences": self.audiences, "user": user if known else {}}}
        assert kind is ACCESS_REVIEW
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(part for part in (asked["resource"], asked["subresource"]) if part)
        return {"status": {"allowed": (resource, asked["verb"], asked["name"]) in self.allowed}}

    async def check_ready(self):
        if self.starting:
            raise UnavailableError("not ready")
        self.allowed |= self.unread


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def agent():
    return Caller.for_service_account("team", "scout")


async def test_a_good_token_names_its_caller_with_all_that_grants_depend_on():
    caller = await Identity(ApiServer(), audience="anabranch").authenticate(GOOD)
    assert caller == Caller(AGENT, "u1", ("g",), (("pod", ("p",)),))
    assert caller.service_account == ("team", "scout")


@pytest.mark.parametrize(
    ("token", "complaint"),
    [
        ("", "has no token"),
        ("x" * 20_000, "longer than 16384 bytes"),
        ("forged", "no JWT"),
        ("a.b.c", "no JWT"),
        ("e30.W10.c", "no JWT"),
        ("e30.\udcff.c", "no JWT"),
        (f"e30.{'W1tb' * 3_000}.c", "no JWT"),
        (jwt(aud=("https://kubernetes.default.svc",)), "not meant for the audience 'anabranch', but for"),
        (jwt(aud={"anabranch": 1}), "not meant for"),
        (jwt(exp=NOW - 301), "expired at 2030-03-17T17:41:39"),
        (jwt(exp=-1e300), "expired at a time before all calendars"),
    ],
    ids=lambda text: text[:20].encode("ascii", "replace").decode(),
)
async def test_a_token_that_shows_to_be_no_good_is_refused_unasked_and_says_what_to_do(token, complaint):
    server = ApiServer()
    with pytest.raises(UnauthenticatedError, match=complaint) as refused:
        await Identity(server, audience="anabranch", now=lambda: NOW).authenticate(token)
    assert "kubectl create token" in refused.value.hint
    assert server.asked == []


@pytest.mark.parametrize(
    ("token", "complaint"),
    [
        (jwt(), "does not accept"),
        (jwt(exp=NOW - 1), "expired at"),
        (jwt(exp=None), "does"),
        (jwt(aud="anabranch"), "does"),
    ],
)
async def test_what_shows_nothing_is_judged_by_the_api_server_which_has_a_clock_of_its_own(token, complaint):
    server = ApiServer()
    with pytest.raises(UnauthenticatedError, match=complaint):
        await Identity(server, audience="anabranch", now=lambda: NOW).authenticate(token)
    assert len(server.asked) == 1


async def test_a_token_that_was_confirmed_for_another_audience_is_refused():
    server = ApiServer(audiences=["https://kubernetes.default.svc"])
    with pytest.raises(UnauthenticatedError, match="does not accept the token for the audience 'anabranch'"):
        await Identity(server, audience="anabranch").authenticate(GOOD)


async def test_a_flood_of_strangers_is_bounded_and_who_is_known_does_not_notice(clock):
    server = ApiServer()
    identity = Identity(server, audience="anabranch", clock=clock)
    await identity.authenticate(GOOD)
    server.slow.clear()
    flood = [asyncio.create_task(identity.authenticate(jwt(f"forged{n}"))) for n in range(3 * WAITING)]
    await asyncio.sleep(0.01)
    assert (await identity.authenticate(GOOD)).username == AGENT
    clock.now += 61  # now it must be asked about again, and does not stand behind the flood
    asked = len(server.asked)
    known = asyncio.create_task(identity.authenticate(GOOD))
    async with asyncio.timeout(30):
        while len(server.asked) == asked:  # noqa: ASYNC110  (what is waited for has no event)
            await asyncio.sleep(0.01)
    assert server.asked[asked:] == [("TokenReview", {"token": GOOD, "audiences": ["anabranch"]})]
    assert asked < WAITING
    server.slow.set()
    assert (await known).username == AGENT
    answers = await asyncio.gather(*flood, return_exceptions=True)
    assert sum(isinstance(answer, BusyError) for answer in answers) == 2 * WAITING
    assert BusyError.status == 503
    assert sum(isinstance(answer, UnauthenticatedError) for answer in answers) == WAITING


async def test_refusals_take_no_place_from_who_is_known(clock, monkeypatch):
    monkeypatch.setattr(authentication, "_SIZE", 10)
    server = ApiServer()
    identity = Identity(server, audience="anabranch", clock=clock)
    await identity.authenticate(GOOD)
    tokens = [jwt(f"forged{n}") for n in range(20)]
    await asyncio.gather(*map(identity.authenticate, tokens), return_exceptions=True)
    asked = len(server.asked)
    await identity.authenticate(GOOD)
    assert len(server.asked) == asked


async def test_a_token_that_was_revoked_is_not_known_any_more_when_the_api_server_goes_away(clock):
    server = ApiServer()
    identity = Identity(server, audience="anabranch", clock=clock)
    await identity.authenticate(GOOD)
    clock.now += 61
    server.audiences = []
    with pytest.raises(UnauthenticatedError):
        await identity.authenticate(GOOD, stale=True)
    clock.now += 6
    server.error = UnavailableError("away")
    with pytest.raises(UnavailableError):
        await identity.authenticate(GOOD, stale=True)


async def test_a_token_that_is_known_is_not_taken_apart_again_for_a_minute(clock, monkeypatch):
    looked, objection = [], authentication.objection
    monkeypatch.setattr(
        authentication, "objection", lambda token, **how: looked.append(token) or objection(token, **how)
    )
    identity = Identity(ApiServer(), audience="anabranch", clock=clock)
    for wait, times in ((0, 1), (59, 1), (2, 2)):
        clock.now += wait
        assert (await identity.authenticate(GOOD)).username == AGENT
        assert len(looked) == times


async def test_an_identity_is_asked_again_after_a_minute_and_a_refusal_after_five_seconds(clock):
    server = ApiServer()
    identity = Identity(server, audience="anabranch", clock=clock)
    for advance, token, asked in ((0, GOOD, 1), (59, GOOD, 1), (2, GOOD, 2)):
        clock.now += advance
        await identity.authenticate(token)
        assert len(server.asked) == asked
    for advance, asked in ((0, 3), (4, 3), (2, 4)):
        clock.now += advance
        with pytest.raises(UnauthenticatedError):
            await identity.authenticate(jwt())
        assert len(server.asked) == asked


async def test_only_receipts_go_on_with_an_old_identity_while_the_api_server_is_away(clock):
    server = ApiServer()
    identity = Identity(server, audience="anabranch", clock=clock)
    await identity.authenticate(GOOD)
    server.error = UnavailableError("away")
    clock.now += 599
    assert (await identity.authenticate(GOOD, stale=True)).username == AGENT
    with pytest.raises(UnavailableError):
        await identity.authenticate(GOOD)
    clock.now += 2
    with pytest.raises(UnavailableError):
        await identity.authenticate(GOOD, stale=True)


async def test_an_api_server_that_says_nothing_does_not_hold_up_each_receipt(agent, clock, monkeypatch):
    server = ApiServer(allowed={("scopes", "write", scope) for scope in "abcde"})
    asked = Grants(server, clock=clock)

    async def receive():
        for scope in "abcde":
            assert await asked.allowed(agent, grants.SCOPE_WRITE, namespace="team", name=scope, stale=True)

    await receive()
    monkeypatch.setattr(answers, "PATIENCE_SECONDS", 0.05)
    server.slow.clear()  # it answers nothing, as one whose packets are dropped
    clock.now += 6
    for _ in range(10):
        await asyncio.wait_for(receive(), 30)
    assert len(server.asked) == 5 + 1  # the others rely on what the first one met
    clock.now += 1
    await asyncio.wait_for(receive(), 30)
    assert len(server.asked) == 5 + 1  # whose question is under way still
    with pytest.raises(TimeoutError):  # whoever must not go on by an old answer waits
        await asyncio.wait_for(asked.allowed(agent, grants.SCOPE_WRITE, namespace="team", name="e"), 0.1)

    server.slow.set()
    await asyncio.sleep(0)
    server.allowed.clear()
    clock.now += 1
    assert not await asked.allowed(agent, grants.SCOPE_WRITE, namespace="team", name="d", stale=True)


async def test_an_old_identity_does_not_hide_that_our_own_account_lacks_the_right_to_ask(clock):
    server = ApiServer()
    identity = Identity(server, audience="anabranch", clock=clock)
    await identity.authenticate(GOOD)
    server.error = RightMissingError("tokenreviews is forbidden")
    clock.now += 61
    with pytest.raises(RightMissingError):
        await identity.authenticate(GOOD, stale=True)


async def test_a_revoked_grant_ends_within_five_seconds(agent, clock):
    server = ApiServer(allowed={("baselines", "get", "kb")})
    asked = Grants(server, clock=clock)
    assert await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb")
    server.allowed.clear()
    clock.now += 4.9
    assert await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb")
    clock.now += 0.2
    assert not await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb")


async def test_a_no_is_not_taken_from_an_api_server_that_is_starting(agent, clock):
    server = ApiServer()
    server.starting, server.unread = True, {("baselines", "get", "kb")}
    asked = Grants(server, clock=clock)
    with pytest.raises(UnavailableError):
        await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb")
    server.starting = False
    assert await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb")
    assert not await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="other")


async def test_each_no_is_not_asked_twice_of_an_api_server_that_was_ready_just_before(agent, clock):
    server = ApiServer()
    asked = Grants(server, clock=clock)

    async def refused(name):
        before = len(server.asked)
        assert not await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name=name)
        return len(server.asked) - before

    assert [await refused(name) for name in "abc"] == [2, 1, 1]
    clock.now += 1.1
    server.starting = True
    with pytest.raises(UnavailableError):
        await refused("d")
    server.starting = False
    assert await refused("d") == 2


async def test_the_age_of_an_answer_counts_from_its_question(agent, clock):
    server = ApiServer(allowed={("baselines", "get", "kb")})
    asked = Grants(server, clock=clock)
    server.slow.clear()
    waiting = asyncio.create_task(asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    clock.now += 4
    server.slow.set()
    assert await waiting
    clock.now += 1.1
    await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb")
    assert len(server.asked) == 2


async def test_a_thousand_that_ask_the_same_at_once_cost_one_question(agent):
    server = ApiServer(allowed={("baselines/events", "watch", "kb")})
    asked = Grants(server)
    answers = await asyncio.gather(
        *(asked.allowed(agent, grants.FOLLOW_EVENTS, namespace="team", name="kb") for _ in range(1_000))
    )
    assert all(answers)
    assert len(server.asked) == 1


async def test_who_hangs_up_does_not_take_the_answer_from_the_others(agent):
    server = ApiServer(allowed={("baselines", "get", "kb")})
    asked = Grants(server)
    server.slow.clear()
    first, second = (
        asyncio.create_task(asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb")) for _ in range(2)
    )
    await asyncio.sleep(0)
    first.cancel()
    server.slow.set()
    assert await second
    assert len(server.asked) == 1


async def test_grants_of_two_callers_with_one_name_are_asked_apart(agent):
    server = ApiServer(allowed={("baselines", "get", "kb")})
    asked = Grants(server)
    with_group = Caller(agent.username, agent.uid, (*agent.groups, "auditors"))
    for caller in (agent, with_group):
        await asked.allowed(caller, grants.SEE_BASELINE, namespace="team", name="kb")
    assert [spec["groups"][-1] for _, spec in server.asked] == ["system:authenticated", "auditors"]


async def test_who_may_not_see_an_object_is_told_that_it_is_absent(agent):
    with pytest.raises(NotFoundError, match="no baseline team/kb, or you may not see it"):
        await Grants(ApiServer()).require(agent, grants.READ_RECORDS, namespace="team", name="kb")


async def test_who_may_see_an_object_is_told_which_grant_is_missing(agent):
    server = ApiServer(allowed={("baselines", "get", "kb")})
    with pytest.raises(ForbiddenError, match="lacks the verb `get` on `baselines/records` 'kb'") as denied:
        await Grants(server).require(agent, grants.READ_RECORDS, namespace="team", name="kb")
    assert denied.value.extra == {"grant": "baselines/records:get"}


async def test_scopes_are_asked_one_by_one_unless_a_role_covers_all(agent):
    server = ApiServer(allowed={("scopes", "read", "shared"), ("scopes", "read", "team/build")})
    asked = Grants(server)
    wanted = ["shared", "team/secret", "team/build"]
    assert await asked.readable_scopes(agent, namespace="team", scopes=wanted) == ["shared", "team/build"]
    server.allowed.add(("scopes", "write", ""))
    before = len(server.asked)
    assert await asked.scopes(agent, grants.SCOPE_WRITE, namespace="team", scopes=wanted) == wanted
    assert len(server.asked) == before + 1


async def test_answers_do_not_grow_beyond_their_size():
    kept = Answers(review="test", fresh=lambda _: 60.0, size=100, flights=1)

    async def answer():
        return True

    for key in range(1_000):
        await kept.ask(key, answer)
    assert sum(kept.last(key, within=60) is not None for key in range(1_000)) == 100


async def test_an_error_is_not_remembered(agent):
    server = ApiServer(allowed={("baselines", "get", "kb")})
    asked = Grants(server)
    server.error = UnavailableError("away")
    with pytest.raises(UnavailableError):
        await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb")
    server.error = None
    assert await asked.allowed(agent, grants.SEE_BASELINE, namespace="team", name="kb")


@pytest.mark.parametrize("username", ["jane", "system:serviceaccount:team", "system:serviceaccount::scout"])
def test_only_a_whole_service_account_name_is_a_service_account(username):
    assert Caller(username).service_account is None


def test_every_row_of_the_table_is_another_grant():
    assert len({(grant.resource, grant.verb) for grant in grants.TABLE}) == len(grants.TABLE)
