"""What both processes tell: which program they are, their pool of connections, and what they ask the API server."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from anabranch import __version__
from anabranch.telemetry import tracing
from anabranch.telemetry.declaring import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COMMON: Final = Metrics("Both processes")

BUILD: Final = COMMON.reading(
    "build_info", "Always 1: the version of this program, and the schema that it needs.", "version", "schema"
)

CONNECTIONS: Final = COMMON.reading(
    "postgres_connections",
    "Connections of this process's pools: used, idle, and most that there may be.",
    "store",
    "state",
)

COMMITS_WAIT: Final = COMMON.reading(
    "commits_wait", "1 while commits wait for a synchronous standby of this store, and writes are refused.", "store"
)

REVIEWS: Final = COMMON.histogram(
    "review_duration_seconds",
    "Questions to the API server by TokenReview (token) and SubjectAccessReview (access).",
    "review",
    "outcome",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)

ANSWERS: Final = COMMON.tally(
    "review_lookups_total",
    "Looks for the answer to a review: remembered (hit), on its way for another (shared), asked (miss), or too many "
    "under way already (busy).",
    "review",
    "outcome",
)

SPANS: Final = COMMON.counter(
    "trace_spans_total",
    "Spans that were sent to the collector (exported), or given up since it did not take them (lost).",
    "outcome",
)


def describe(*, schema: str) -> None:
    """Tell which program this is.

    Args:
        schema: The one that it needs.
    """
    BUILD.set({(__version__, schema): 1})


def read_pools(use: Mapping[str, Mapping[str, int]]) -> None:
    """Tell how the pools of connections are used, by the names of their stores."""
    CONNECTIONS.set({(store, state): count for store, pool in use.items() for state, count in pool.items()})


def read_gates(waits: Mapping[str, bool]) -> None:
    """Tell whether commits wait, by the names of the stores."""
    COMMITS_WAIT.set({(store,): float(one) for store, one in waits.items()})


@contextlib.contextmanager
def reviewed(review: str) -> Iterator[None]:
    """Measure a question to the API server.

    Args:
        review: ``token`` or ``access``.
    """
    began, outcome = time.perf_counter(), "failed"
    try:
        with tracing.span(f"review {review}", kind="client"):
            yield
        outcome = "answered"
    finally:
        REVIEWS.labels(review, outcome).observe(time.perf_counter() - began)
