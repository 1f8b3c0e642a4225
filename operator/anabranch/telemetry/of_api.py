"""What the API tells of the requests that it answers."""

from __future__ import annotations

from typing import Final

from anabranch.telemetry.common import COMMON
from anabranch.telemetry.declaring import Metrics
from anabranch.telemetry.requests import Requests

API: Final = Metrics("The API", COMMON)

REQUESTS: Final = Requests()
API.add(REQUESTS, *Requests.declared)

PROBLEMS: Final = API.counter(
    "api_problems_total",
    "Problems answered, by code: among them Busy and TooSlow, with which load is refused.",
    "code",
)

DECISIONS: Final = API.counter(
    "api_review_decisions_total",
    "Decisions that were taken by HTTP, by action (accept, reject) and by how they were made: single, group (once "
    "for all of its candidates).",
    "action",
    "made",
)

LOGINS: Final = API.counter(
    "logins_total",
    "Logins at the issuer that came back to the review page, by outcome: somebody was let in (let_in), or refused for "
    "what the issuer said or sent (refused), this browser had not set out for it (strange), or the issuer was away "
    "(unavailable).",
    "outcome",
)

STANDBY_READS: Final = API.counter(
    "standby_reads_total",
    "Reads that a standby may answer, by outcome: it did (standby), or the primary had to, because it did not have the "
    "manifest (behind), ended the read to follow the primary (conflict), failed, had no connection free (busy), or is "
    "left alone after a failure (away).",
    "outcome",
)

STANDBYS_AWAY: Final = API.reading(
    "standbys_away", "1 while the standbys are left alone after a failure; not told where none are configured."
)

FEED_LAG: Final = API.histogram(
    "feed_lag_events",
    "How many events a follower was behind its line's watermark when it asked.",
    buckets=(0, 1, 10, 100, 1_000, 10_000, 100_000),
)

FOLLOWERS: Final = API.reading("feed_followers", "Streams of feeds that are open.")

AGENT_STREAMS: Final = API.reading("agent_event_streams", "Streams of agents' events that are open.")

FEED_ENDED: Final = API.counter(
    "feed_streams_ended_total",
    "Streams that the API ended, of feeds and of agents' events, by the code of the problem: Ending and "
    "Unauthenticated are in the course of things.",
    "code",
)

STORE_UP: Final = API.reading(
    "store_up", "1: this store answers, and has the schema of this program; 0: what lies in it cannot be used.", "store"
)

LINE_LAG: Final = API.reading(
    "feed_line_lag_events",
    "The furthest that a follower of a line was behind when it asked, in the last five minutes; of the twenty lines "
    "with the most only.",
    "baseline_namespace",
    "baseline",
)

AGENT_EVENTS: Final = API.counter(
    "agent_events_total",
    "Events for agents, by what was done: told (claimed), told_again (a claim before had run out, or was given back), "
    "acknowledged, given_back.",
    "outcome",
)
