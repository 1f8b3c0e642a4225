"""Counts requests for less than a microsecond each.

The library's histogram and counters take a lock for each number, since any thread may count. Requests are counted in
the event loop alone, ten thousand times between two scrapes, so here they are added to plain lists, and made into the
library's form when somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from anabranch.telemetry.declaring import Declared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds."""

_LABELS: Final = ("method", "route", "status")
_BOUNDS: Final = (*map(floatToGoString, BUCKETS), "+Inf")

DURATION: Final = Declared(
    name="anabranch_api_request_duration_seconds",
    type="histogram",
    help="From a request's head to the last byte of its answer, by route and class of status (2xx … 5xx). A request "
    "that waits for events takes as long as it waits. Its count is the rate; the share of 5xx in it, the errors.",
    labels=_LABELS,
)
RECEIVED: Final = Declared(
    name="anabranch_api_request_body_bytes_total",
    type="counter",
    help="Bytes of bodies that were read.",
    labels=_LABELS,
)
SENT: Final = Declared(
    name="anabranch_api_response_body_bytes_total",
    type="counter",
    help="Bytes of bodies that were sent.",
    labels=_LABELS,
)
IN_FLIGHT: Final = Declared(
    name="anabranch_api_requests_in_flight", type="gauge", help="Requests that are being answered.", labels=()
)


@dataclass(slots=True)
class _Series:
    counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    seconds: float = 0.0
    received: int = 0
    sent: int = 0


class Requests(Collector):
    """The counts of one process, kept by its event loop.

    Attributes:
        in_flight: Requests that are being answered.
    """

    declared = (DURATION, RECEIVED, SENT, IN_FLIGHT)

    def __init__(self) -> None:
        self.in_flight = 0
        self._series: dict[tuple[str, str, int], _Series] = {}

    def note(  # noqa: PLR0913  (what there is to tell of a request)
        self, *, method: str, route: str, status: int, seconds: float, received: int, sent: int
    ) -> None:
        """Count a request that is over.

        Args:
            method: One of a few.
            route: The template of its path.
            status: Of its answer.
            seconds: That it took.
            received: Bytes of its body that were read.
            sent: Bytes of its answer's body.
        """
        key = (method, route, status // 100)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series()
        series.counts[bisect_left(BUCKETS, seconds)] += 1
        series.seconds += seconds
        series.received += received
        series.sent += sent

    def collect(self) -> Iterable[Metric]:
        """The counts, for the registry; in any thread."""
        durations = HistogramMetricFamily(DURATION.name, DURATION.help, labels=_LABELS)
        received = CounterMetricFamily(RECEIVED.name, RECEIVED.help, labels=_LABELS)
        sent = CounterMetricFamily(SENT.name, SENT.help, labels=_LABELS)
        for (method, route, status), series in list(self._series.items()):
            labels = (method, route, f"{status}xx")
            buckets = list(zip(_BOUNDS, accumulate(series.counts), strict=True))
            durations.add_metric(labels, buckets=buckets, sum_value=series.seconds)
            received.add_metric(labels, series.received)
            sent.add_metric(labels, series.sent)
        return [durations, received, sent, GaugeMetricFamily(IN_FLIGHT.name, IN_FLIGHT.help, value=self.in_flight)]
