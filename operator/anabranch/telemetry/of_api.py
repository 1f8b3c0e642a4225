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
