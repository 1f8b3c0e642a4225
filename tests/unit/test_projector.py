"""The projector shows what Postgres has committed: once for each change, never older than before, only as leader."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.rows import BRANCH, JOB, LINE, T0, baseline, branch, job, waiting

from anabranch.controllers import projector, sheets, verifying
from anabranch.controllers.bell import Bell
from anabranch.controllers.homes import Homes
from anabranch.controllers.keys import Key
from anabranch.controllers.pacing import QUIET_SECONDS
from anabranch.controllers.projector import Projector
from anabranch.controllers.status import Seen, branch_status, waiting_status
from anabranch.kube.errors import ChangedObjectError, ObjectNotFoundError, ObjectRefusedError, StaleObjectError
from anabranch.model.errors import UnavailableError
from anabranch.store.projection import Dirty

METADATA = {"uid": "u", "namespace": "team", "name": "scout"}


class Store:
    """The rows that lag behind, and their states, as the projection reads and marks them."""

    def __init__(self):
        self.rows = {}
        self.marked = []
        self.excluded = []
        self.later = None

    def change(self, kind, state, *, uid="u", version=1):
        identifier = {"Baseline": LINE, "Branch": BRANCH, "ConsolidationJob": JOB, "Waiting": None}[kind]
        name = "Branch" if kind == "Waiting" else kind
        line = None if kind == "Waiting" else LINE
        row = Dirty(kind=name, namespace="team", name="scout", uid=uid, line=line, id=identifier, version=version)
        self.rows[uid] = (row, state)

    def connection(self):
        return self

    async def __aenter__(self):
        return None

    async def __aexit__(self, *error):
        return None

    async def dirty(self, _conn, *, limit, exclude):
        self.excluded = list(exclude)
        return [row for row, _ in self.rows.values() if row not in self.excluded][:limit]

    async def mark(self, _conn, rows):
        for row in rows:
            self.marked.append((row.uid, row.version))
            if self.rows.get(row.uid, (None,))[0] == row:
                del self.rows[row.uid]

    def states(self, kind):
        async def read(_conn, **_):
            rows = [*self.rows.values(), *([self.later] if self.later else [])]
            found = [(row, state) for row, state in rows if row.kind == kind and row.id is not None]
            return [of_row(row, state) for row, state in found]

        return read

    async def waiting(self, _conn, **_):
        return next((replace(state, version=row.version) for row, state in self.rows.values() if row.id is None), None)


def of_row(row, state):
    """A state whose resource has the uid of a row, and its version."""
    part = next(name for name in ("line", "branch", "job") if hasattr(state, name))
    return replace(state, **{part: replace(getattr(state, part), uid=row.uid, version=row.version)})


class ApiServer:
    def __init__(self):
        self.patches = []
        self.error = None
        self.during = None
        self.body = None
        self.reads = 0
        self.versions = []

    async def get(self, _kind, **_):
        self.reads += 1
        if self.body is None:
            raise ObjectNotFoundError("It is gone.")
        return self.body

    async def write_status(self, kind, *, uid, status, whole, version=None, **_):
        if self.during is not None:
            await self.during()
        error = self.error.get(kind.name) if isinstance(self.error, dict) else self.error
        if error is not None:
            raise error
        self.patches.append((kind.name, uid, status))
        self.versions.append(version)
        self.whole = whole


class Others:
    """Leadership, Events and the reconciler, as far as the projector asks them."""

    def __init__(self):
        self.leading = True
        self.margin = 3.0
        self.busy = False
        self.told = []
        self.forgotten = []
        self.revisited = []

    def tell(self, about, occurrence):
        self.told.append((about.name, occurrence.reason))

    def is_busy(self, _key):
        return self.busy

    async def gone(self, key, uid):
        self.forgotten.append((key.kind, uid))

    async def revisit(self, key):
        self.revisited.append(key)


@pytest.fixture
def store(monkeypatch):
    fake = Store()
    for name in ("dirty", "mark"):
        monkeypatch.setattr(projector.projection, name, getattr(fake, name))
    monkeypatch.setattr(sheets.projection, "baseline_status", fake.states("Baseline"))
    monkeypatch.setattr(sheets.projection, "branch_status", fake.states("Branch"))
    monkeypatch.setattr(sheets.projection, "job_status", fake.states("ConsolidationJob"))
    monkeypatch.setattr(sheets.waiting, "get", fake.waiting)
    return fake


@pytest.fixture
def server():
    return ApiServer()


@pytest.fixture
def others():
    return Others()


@pytest.fixture
def shown(store, server, others):
    return Projector(store, server, leadership=others, announcer=others, bell=Bell(), reconciler=others)


@pytest.fixture
def beside(store, server, others):
    """One of the store `east`, beside the default one."""
    return Projector(
        store,
        server,
        leadership=others,
        announcer=others,
        bell=Bell(),
        reconciler=others,
        store="east",
        homes=Homes(server, own="east", others=("east",)),
    )


async def test_what_lags_behind_is_written_to_the_object_of_that_uid_and_marked(store, server, shown):
    store.change("Baseline", baseline(head=2), version=7)
    assert await shown.look() == 1
    ((kind, uid, status),) = server.patches
    assert (kind, uid, status["current"]["generation"]) == ("Baseline", "u", 2)
    assert store.marked == [("u", 7)]
    assert await shown.look() == 0


async def test_a_change_that_comes_during_the_write_is_written_by_the_next_look(store, server, shown):
    async def change_again():
        store.change("ConsolidationJob", job(state="published"), version=2)
        server.during = None

    store.change("ConsolidationJob", job(), version=1)
    server.during = change_again
    await shown.look()
    await shown.look()
    assert [status["state"] for _, _, status in server.patches] == ["received", "published"]
    assert store.marked == [("u", 1), ("u", 2)]


async def test_who_does_not_lead_writes_nothing_even_if_leadership_is_lost_halfway(store, server, shown, others):
    store.change("Baseline", baseline(head=1))
    others.leading = False
    await shown.look()
    assert (server.patches, store.marked) == ([], [])


@pytest.mark.parametrize("error", [ObjectNotFoundError("gone"), StaleObjectError("another uid")])
async def test_a_resource_that_is_gone_or_another_one_is_forgotten_and_not_tried_again(
    store, server, shown, others, error
):
    store.change("Branch", branch())
    server.error = error
    assert await shown.look() == 1
    assert others.forgotten == [("Branch", "u")]
    assert store.marked == [("u", 1)]


async def test_a_status_that_the_schema_refuses_is_put_off_and_holds_up_no_other(store, server, shown):
    store.change("Branch", branch())
    server.error = ObjectRefusedError("status.phase: Unsupported value")
    await shown.look()
    await shown.look()
    assert store.marked == []
    assert [row.id for row in store.excluded] == [BRANCH]


async def test_an_outage_leaves_rows_to_be_written_later(store, server, shown):
    store.change("Branch", branch())
    store.change("Baseline", baseline(head=1), uid="ub")
    server.error = {"Branch": UnavailableError("away")}
    with pytest.raises(UnavailableError):
        await shown.look()
    assert store.marked == [("ub", 1)], "what was written is marked all the same"
    server.error = None
    assert await shown.look() == 1
    assert store.marked == [("ub", 1), ("u", 1)]


async def test_an_object_is_shown_only_when_its_reconcile_is_done(store, server, shown, others):
    store.change("Baseline", baseline(head=1))
    others.busy = True
    await shown.look()
    assert (server.patches, store.marked) == ([], [])
    others.busy = False
    await shown.look()
    assert len(server.patches) == 1


async def test_the_first_rise_of_a_branchs_number_is_shown_at_once_and_further_ones_wait(store, server, shown):
    for version, through in ((1, 0), (2, 1), (3, 2)):
        store.change("Branch", replace(branch(), contiguous_through=through), version=version)
        await shown.look()
    assert [status["lastSubmittedSequence"] for _, _, status in server.patches] == [0, 1]
    store.change("Branch", replace(branch("Completed"), contiguous_through=2), version=4)
    await shown.look()
    assert server.patches[-1][2]["phase"] == "Completed", "a change of state waits for nothing"


async def test_a_number_that_waited_is_shown_after_half_a_minute(store, server, shown, monkeypatch):
    for version, through in ((1, 0), (2, 1), (3, 2)):
        store.change("Branch", replace(branch(), contiguous_through=through), version=version)
        await shown.look()
    later = projector._now() + QUIET_SECONDS + 1
    monkeypatch.setattr(projector, "_now", lambda: later)
    await shown.look()
    assert [status["lastSubmittedSequence"] for _, _, status in server.patches] == [0, 1, 2]


async def test_times_of_conditions_come_from_what_the_watch_showed(store, server, shown):
    since = (T0 - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "True", "reason": "Forked", "lastTransitionTime": since}
    status = {"phase": "Active", "conditions": [condition]}
    shown.observe("Branch", {"metadata": METADATA, "status": status})
    store.change("Branch", branch())
    await shown.look()
    assert server.patches[0][2]["conditions"][0]["lastTransitionTime"] == since


async def test_what_happened_is_told_once_the_status_says_so(store, server, shown, others):
    store.change("Waiting", waiting())
    await shown.look()
    assert others.told == [("scout", "BaselineUnavailable")]
    assert not server.whole, "a resource that waits keeps what else its status tells"
    server.error = UnavailableError("away")
    store.change("Branch", branch(), version=2)
    with pytest.raises(UnavailableError):
        await shown.look()
    assert others.told == [("scout", "BaselineUnavailable")]
    server.error = None
    await shown.look()
    assert others.told == [("scout", "BaselineUnavailable"), ("scout", "Forked")]


async def test_a_defect_in_one_look_does_not_end_the_projector(store, shown, monkeypatch):
    monkeypatch.setattr(projector, "COALESCE_SECONDS", 0.001)
    monkeypatch.setattr(projector, "POLL_SECONDS", 0.001)
    looked = []

    async def look():
        looked.append(1)
        raise KeyError("a defect")

    monkeypatch.setattr(shown, "look", look)
    running = asyncio.create_task(shown.run())
    async with asyncio.timeout(60):
        while len(looked) < 3:  # noqa: ASYNC110  (what is waited for has no event)
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait({running})


@pytest.fixture
def restored(store, monkeypatch):
    """A branch that Postgres has shown long ago; whether its status still says so is the test's business."""
    row, state = Dirty(kind="Branch", **METADATA, line=LINE, id=BRANCH, version=0), branch()
    store.rows = {"u": (row, state)}

    async def nothing(_conn, **_):
        return []

    monkeypatch.setattr(projector.projection, "dirty", nothing)
    monkeypatch.setattr(verifying, "GRACE_SECONDS", -1.0)
    return branch_status(state, seen=Seen(), now=T0).whole()


async def test_a_status_that_says_what_it_should_is_not_written_after_a_restart(server, shown, restored):
    shown.observe("Branch", {"metadata": METADATA, "status": {**restored, "lastSubmittedSequence": 3}})
    assert await shown.look() == 0
    assert server.patches == []


@pytest.mark.parametrize("member", ["phase", "observedGeneration"])
async def test_a_status_that_was_restored_from_an_older_backup_is_written_again(server, shown, restored, member):
    shown.observe("Branch", {"metadata": METADATA, "status": {**restored, member: None}})
    await shown.look()
    await shown.look()
    assert [status[member] for _, _, status in server.patches] == [restored[member]]


async def test_a_status_that_somebody_wiped_is_written_again_as_it_was(server, shown, restored, monkeypatch):
    async def found(*_):
        return BRANCH

    monkeypatch.setattr(verifying, "_look_up", found)
    shown.observe("Branch", {"metadata": METADATA, "status": restored})
    assert await shown.look() == 0
    shown.observe("Branch", {"metadata": METADATA, "status": {"observedGeneration": -1}})
    await shown.look()
    shown.observe("Branch", {"metadata": METADATA, "status": restored})
    await shown.look()
    assert [status for _, _, status in server.patches] == [restored]


async def test_what_looked_like_news_for_a_moment_is_judged_by_what_was_seen_last(server, shown, restored):
    shown.observe("Branch", {"metadata": METADATA, "status": restored})
    await shown.look()
    for status in ({"observedGeneration": -1}, {**restored, "phase": "Stale"}, restored):
        shown.observe("Branch", {"metadata": METADATA, "status": status})
    assert await shown.look() == 0
    assert server.patches == []


@pytest.mark.parametrize("wiped", [True, False])
async def test_a_wait_is_shown_again_too_if_it_is_not_there(store, server, shown, restored, monkeypatch, wiped):
    async def none(*_):
        return None

    wait = waiting()
    store.rows = {"u": (Dirty(kind="Branch", **METADATA, line=None, id=None, version=0), wait)}
    monkeypatch.setattr(verifying, "_look_up", none)
    told = waiting_status(wait, seen=Seen(), now=T0)
    status = {"observedGeneration": -1} if wiped else {**told, "endpoint": "left from before"}
    shown.observe("Branch", {"metadata": METADATA, "status": status})
    await shown.look()
    await shown.look()
    assert [status["conditions"][0]["reason"] for _, _, status in server.patches] == [wait.reason] * wiped


async def test_an_object_that_postgres_does_not_know_is_left_alone(store, server, shown, restored):
    store.rows = {}
    shown.observe("Branch", {"metadata": METADATA, "status": restored})
    assert await shown.look() == await shown.look() == 0
    assert server.patches == []


async def test_a_status_that_was_found_wrong_is_marked_as_of_the_row_that_it_was_made_from(store, server, shown):
    """Its row came into being between two reads; marked as of none, it would be written once more."""
    store.change("Branch", branch(), version=3)
    row, state = store.rows.pop("u")
    shown.observe("Branch", {"metadata": METADATA, "status": {"observedGeneration": -1, "branchId": BRANCH}})
    store.later = (row, state)
    shown._verifying._seen["u"] = replace(shown._verifying._seen["u"], at=-100.0)
    await shown.look()
    assert len(server.patches) == 1
    assert store.marked == [("u", 3)]


def of_branch(**status):
    return {"metadata": {**METADATA, "resourceVersion": "7"}, "spec": {}, "status": status}


async def test_what_another_store_has_taken_up_is_never_overwritten(store, server, beside, others):
    store.change("Branch", branch())
    server.body = of_branch(branchId="br_of_the_default_store")
    assert await beside.look() == 1
    assert server.patches == []
    assert others.revisited == [Key("Branch", "team", "scout")], "what is here of it is given up"
    assert store.rows == {}


async def test_the_first_status_of_a_branch_is_written_to_what_was_read_and_the_next_ones_to_any(store, server, beside):
    store.change("Branch", branch())
    server.body = of_branch()
    await beside.look()
    store.change("Branch", branch("Completed"), version=2)
    await beside.look()
    assert (server.versions, server.reads) == (["7", None], 1)
    assert server.patches[0][2]["store"] == "east"


async def test_a_branch_whose_status_names_this_store_needs_no_reading(store, server, beside):
    beside.observe("Branch", of_branch(branchId=BRANCH, store="east"))
    store.change("Branch", branch())
    await beside.look()
    assert (server.versions, server.reads) == ([None], 0)


async def test_a_status_that_names_the_wrong_store_for_what_is_here_is_put_right(store, server, beside):
    store.change("Branch", branch())
    server.body = of_branch(branchId=BRANCH)
    await beside.look()
    assert server.patches[0][2]["store"] == "east"


async def test_a_branch_that_changed_between_is_read_again(store, server, beside, others, monkeypatch):
    monkeypatch.setattr(projector, "_CHANGED_SECONDS", 0.0)
    store.change("Branch", branch())
    server.body, server.error = of_branch(), ChangedObjectError("It was changed.", hint="Read it again.")
    assert await beside.look() == 0
    server.body, server.error = of_branch(branchId="br_of_the_default_store"), None
    await beside.look()
    assert server.patches == []
    assert len(others.revisited) == 1


async def test_where_there_is_one_store_nothing_is_read(store, server, shown):
    store.change("Branch", branch())
    await shown.look()
    assert (server.versions, server.reads) == ([None], 0)
