"""Declares metrics, so that each says in one place what it is called, what it counts and how it is broken down.

The library's own objects do the counting. What is added is the list of what was declared: the page of metrics is
written from it, and the alerts and the dashboard of the chart are held to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

PREFIX: Final = "anabranch_"

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which says when the process began

Values: TypeAlias = Mapping[tuple[str, ...], float]
"""Samples by the values of their labels, in the order of the labels."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A metric as it was declared.

    Attributes:
        name: As it is queried; without the suffixes of a histogram.
        type: ``counter``, ``gauge`` or ``histogram``.
        help: What it tells.
        labels: What it is broken down by.
    """

    name: str
    type: str
    help: str
    labels: tuple[str, ...]

    @property
    def series(self) -> frozenset[str]:
        """The names of its series."""
        suffixes = ("_bucket", "_sum", "_count") if self.type == "histogram" else ("",)
        return frozenset(self.name + suffix for suffix in suffixes)


class Reading(Collector):
    """A gauge of something that is looked at from time to time, by one process of several.

    Unlike the library's it has no sample until it was read, and none once it is forgotten: a process that stands by
    must not go on telling what was true when it led, nor say zero of what it does not know.
    """

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._values: Values = {}

    def set(self, values: Values | float) -> None:
        """Replace all samples."""
        self._values = values if isinstance(values, Mapping) else {(): values}

    def forget(self) -> None:
        """Tell nothing."""
        self._values = {}

    def collect(self) -> Iterable[Metric]:
        """The samples, for the registry."""
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        return [family]


@dataclass(slots=True)
class Count:
    """How often something has happened."""

    count: int = 0


class Tally(Collector):
    """A counter for what happens several times in a request: it is kept by one event loop, and takes no lock."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._counts: dict[tuple[str, ...], Count] = {}

    def of(self, *labels: str) -> Count:
        """The count of these labels, to be kept at hand."""
        return self._counts.setdefault(labels, Count())

    def collect(self) -> Iterable[Metric]:
        """The counts, for the registry; in any thread."""
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count.count)
        return [family]


class Metrics:
    """A registry that remembers what was declared with it.

    Args:
        title: Of whom these are, for the page of metrics.
        parts: Others whose metrics it shows too.
    """

    def __init__(self, title: str, *parts: Metrics) -> None:
        self.title = title
        self.declared: list[Declared] = []
        self.parts = parts
        self._readings: list[Reading] = []
        self.registry = CollectorRegistry(auto_describe=False)
        for part in parts:
            self.registry.register(part.registry)

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """Declare a counter; its name ends in ``_total``."""
        return Counter(self._note(name, "counter", text, labels), text, labels, registry=self.registry)

    def tally(self, name: str, text: str, *labels: str) -> Tally:
        """Declare a counter that takes no lock; its name ends in ``_total``."""
        found = Tally(self._note(name, "counter", text, labels), text, labels)
        self.registry.register(found)
        return found

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Declare a gauge."""
        return Gauge(self._note(name, "gauge", text, labels), text, labels, registry=self.registry)

    def histogram(self, name: str, text: str, *labels: str, buckets: Sequence[float]) -> Histogram:
        """Declare a histogram; ``buckets`` are its upper bounds, the infinite one left out."""
        noted = self._note(name, "histogram", text, labels)
        return Histogram(noted, text, labels, buckets=buckets, registry=self.registry)

    def reading(self, name: str, text: str, *labels: str) -> Reading:
        """Declare a gauge that may be unknown."""
        found = Reading(self._note(name, "gauge", text, labels), text, labels)
        self._readings.append(found)
        self.registry.register(found)
        return found

    def add(self, collector: Collector, *declared: Declared) -> None:
        """Add a collector that declares for itself what it collects."""
        self.declared.extend(declared)
        self.registry.register(collector)

    def forget(self) -> None:
        """Forget every reading of its own."""
        for reading in self._readings:
            reading.forget()

    def all(self) -> Iterator[Declared]:
        """Its own and its parts'."""
        yield from self.declared
        for part in self.parts:
            yield from part.all()

    def _note(self, name: str, kind: str, text: str, labels: tuple[str, ...]) -> str:
        whole = PREFIX + name
        self.declared.append(Declared(name=whole, type=kind, help=text, labels=labels))
        return whole
