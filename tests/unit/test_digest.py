"""What an event carries of what its agent has not seen."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.domain import digest, takeaway
from anabranch.memory import exchanges as posting
from anabranch.model import limits
from anabranch.model.agent_events import AgentEventData, MemoryDigest
from anabranch.model.canonical import canonical_bytes
from anabranch.model.memory import AgentKey, Exchange, ExchangePost, Participant, Surface, Turn

WHEN = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)

# Whatever a text is, once it went through `takeaway`: escapes and long encodings among it.
texts = st.text(st.sampled_from('"\\/ aé中🙂\u200d') | st.characters(exclude_categories=["Cs"]))
visible = st.text(st.sampled_from("".join(map(chr, range(33, 127))).replace('"', "").replace("\\", "")), min_size=1)
exchanges = st.builds(
    lambda kind, pod, label, peers, said: Exchange(
        kind=kind,
        surface_pod_id=pod,
        surface_label=takeaway.head(label, limit=limits.SURFACE_LABEL_CHARACTERS),
        peers=tuple(peers),
        takeaway=takeaway.head(said),
        ts=WHEN,
    ),
    st.sampled_from(["exchange.direct", "exchange.task_completed"]),
    visible.map(lambda text: (text * 128)[:128]),
    texts.map(lambda text: text * 64),
    st.lists(visible.map(lambda text: (text * 100)[: limits.PEER_BYTES]), max_size=limits.PEERS),
    texts.map(lambda text: text * 280),
)


def plain(number: int, words: str = "said") -> Exchange:
    return Exchange(
        kind="exchange.direct",
        surface_pod_id="room-7",
        surface_label="Planning",
        peers=("planner/default",),
        takeaway=f"{number}: {words}",
        ts=WHEN,
    )


def largest() -> Exchange:
    """The longest that the bounds of its members allow."""
    return Exchange(
        kind="a" * 16 + "." + "b" * 15,
        surface_pod_id="p" * limits.SURFACE_ID_BYTES,
        surface_label="🙂" * limits.SURFACE_LABEL_CHARACTERS,
        peers=tuple("p" * limits.PEER_BYTES for _ in range(limits.PEERS)),
        takeaway="🙂" * limits.TAKEAWAY_CHARACTERS,
        ts=WHEN,
    )


def test_the_longest_exchange_that_there_can_be_fits_beside_the_greatest_number_of_omitted_ones():
    assert digest.size(MemoryDigest(entries=(largest(),), omitted=limits.EXCHANGES_KEPT)) <= limits.DIGEST_BYTES


@given(exchanges)
@settings(max_examples=40)
def test_any_exchange_fits(exchange):
    assert digest.size(MemoryDigest(entries=(exchange,), omitted=limits.EXCHANGES_KEPT)) <= limits.DIGEST_BYTES


@given(st.lists(exchanges, max_size=12), st.integers(1, 6))
@settings(max_examples=40)
def test_each_entry_is_told_once_newest_first_within_the_bounds_and_what_is_not_told_is_counted(unseen, events):
    digests = digest.share_out(unseen, events=events)
    told = [entry for each in digests for entry in each.entries]
    assert told == unseen[: len(told)]
    left = len(unseen)
    for each in digests:
        left -= len(each.entries)
        assert len(each.entries) <= 5
        assert digest.size(each) <= 2_560
        assert each.omitted == left
        assert each.entries or left == 0  # while something is left, each digest carries some of it


@given(
    st.builds(
        lambda pod, label, agents, said: ExchangePost(
            exchange_id="x",
            kind="exchange.task_completed",
            surface=Surface(pod_id=(pod * 128)[:128], label=(label * 64)[:64]),
            participants=tuple(Participant(agent_id=f"{'a' * size}{n}", instance="i") for n, size in enumerate(agents)),
            turns=(Turn(sender="a", content=(said * 280)[: limits.TURN_CHARACTERS]),),
        ),
        visible,
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1),
        st.lists(st.integers(1, limits.PEER_BYTES - 3), min_size=8, max_size=8),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    )
)
@settings(max_examples=20)
def test_whatever_a_platform_may_post_fits_as_its_agents_are_told_of_it(post):
    agents = [AgentKey(namespace="n", agent_id=each.agent_id, instance=each.instance) for each in post.participants]
    entry = posting._entry(post, agents[0], agents, digest=b"", at=WHEN)
    told = Exchange(**{name: getattr(entry, name) for name in Exchange.model_fields})
    assert digest.size(MemoryDigest(entries=(told,), omitted=limits.EXCHANGES_KEPT)) <= limits.DIGEST_BYTES
    assert takeaway.plain(told.surface_label) == told.surface_label


def test_a_participant_of_too_long_a_name_is_refused():
    Participant(agent_id="a" * 92, instance="default")
    with pytest.raises(ValueError, match="has 101 bytes, the limit is 100"):
        Participant(agent_id="a" * 93, instance="default")


def test_a_digest_ends_at_five_entries_or_at_its_bytes():
    many = [plain(number) for number in range(12)]
    assert [(len(each.entries), each.omitted) for each in digest.share_out(many, events=4)] == [
        (5, 7),
        (5, 2),
        (2, 0),
        (0, 0),
    ]
    long = [plain(number, "é" * 270) for number in range(4)]
    assert [(len(each.entries), each.omitted) for each in digest.share_out(long, events=2)] == [(3, 1), (1, 0)]


def test_what_is_measured_is_what_travels():
    fullest = MemoryDigest(entries=(plain(1, '"quoted" \\ é 🙂'),), omitted=3)
    assert digest.size(fullest) == len(canonical_bytes(json.loads(fullest.model_dump_json())))
    assert digest.size(fullest) == len(fullest.model_dump_json().encode())


def test_the_payload_has_the_members_of_the_proposal():
    data = AgentEventData(branchId="br_1", memory_revision="7", memory_digest=MemoryDigest(entries=(plain(1),)))
    assert json.loads(data.model_dump_json()) == {
        "branchId": "br_1",
        "memoryRevision": "7",
        "memoryDigest": {
            "entries": [
                {
                    "kind": "exchange.direct",
                    "surfacePodId": "room-7",
                    "surfaceLabel": "Planning",
                    "peers": ["planner/default"],
                    "takeaway": "1: said",
                    "ts": "2026-11-30T12:00:00.123456Z",
                }
            ],
            "omitted": 0,
        },
    }
