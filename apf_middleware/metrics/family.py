"""One metric: its name, help, labels and buckets, and the function that reads its series; and sources of series."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isnan
from typing import Final, Generic, Literal, TypeVar

from prometheus_client.utils import floatToGoString

from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.frozen import frozen
from apf_middleware.metrics.reading import ServerReading
from apf_middleware.metrics.series import Labels, Series, Value

__all__ = ["DURATIONS", "NS", "Family", "MultiprocessMode", "Point", "Reader", "SeriesSource"]

NS: Final = 10**9
"""The nanoseconds of a second."""

DURATIONS: Final = tuple(bound / NS for bound in DURATION_BOUNDS_NS)
"""The bounds of histograms of durations, in seconds."""

Point = tuple[Labels, float | Histogram]
"""One series."""

MultiprocessMode = Literal["livesum", "livemin", "livemax", "liveall"]
"""How the gauges of several workers are combined, in prometheus_client's terms."""


Reader = Callable[[ServerReading], Iterable[Series]]
"""Reads the series of a metric."""


@frozen
class Family:
    """One metric: its name without the prefix, its help, the names of its labels, and the bounds of a histogram.

    Observations are in units of 1/``unit``. A legacy family has a name that Kubernetes used until 1.30.
    """

    suffix: str
    help: str
    labels: Labels
    read: Reader
    mode: MultiprocessMode = "livesum"
    bounds: tuple[float, ...] = ()
    unit: int = 1
    is_legacy: bool = False

    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]:
        """Return the type in Prometheus."""
        if self.bounds:
            return "histogram"
        return "counter" if self.suffix.endswith("_total") else "gauge"

    @property
    def buckets(self) -> tuple[str, ...]:
        """Return the bounds, with infinity, as they are written in the label ``le``."""
        return tuple(map(floatToGoString, (*self.bounds, float("inf"))))


ObjectT = TypeVar("ObjectT")


@frozen
class SeriesSource(Generic[ObjectT]):
    """The objects of one kind in a reading, each with the values of its ``labels``."""

    labels: Labels
    objects: Callable[[ServerReading], Iterable[tuple[Labels, ObjectT]]]

    def __call__(
        self,
        suffix: str,
        help: str,  # noqa: A002 - as Prometheus calls it
        value: Callable[[ObjectT], Value | Mapping[str, Value] | None],
        *more_labels: str,
        mode: MultiprocessMode = "livesum",
        bounds: tuple[float, ...] = (),
        unit: int = 1,
        is_legacy: bool = False,
    ) -> Family:
        """Return a metric with one series for each object.

        If ``value`` returns a mapping, there is one series for each of its keys, which is the value of a further label.
        None and NaN mean no series.
        """

        def read(reading: ServerReading) -> Iterator[Series]:
            for labels, one in self.objects(reading):
                found = value(one)
                if isinstance(found, Mapping):
                    yield from (((*labels, label), part) for label, part in found.items())
                elif found is not None and not (isinstance(found, float) and isnan(found)):
                    yield labels, found

        return Family(suffix, help, (*self.labels, *more_labels), read, mode, bounds, unit, is_legacy)
