"""The metrics as prometheus_client collects them, made from one reading of the server at each scrape.

Between two scrapes only the histograms of ratios are kept (see `RatioLedger`), and only those of the levels of the last
reading. So a removed level has no series any more.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from apf_middleware.counters import Histogram
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.metrics.families import FAMILIES, read_families
from apf_middleware.metrics.family import Family, Point
from apf_middleware.metrics.ratios import RatioLedger
from apf_middleware.metrics.reading import ServerReading
from apf_middleware.metrics.text import write_text

__all__ = ["DEFAULT_PREFIX", "APFCollector", "Run", "metric_name"]

DEFAULT_PREFIX: Final = "apf"

Run = Callable[[Callable[[], list[Metric]]], list[Metric]]


def metric_name(family: Family, prefix: str) -> str:
    """Return a metric's name without the ``_total`` of counters, as prometheus_client names families."""
    return f"{prefix}_{family.suffix.removesuffix('_total')}"


class APFCollector(Collector):
    """All metrics of one server, made of what ``read`` returns.

    A registry may be read in any thread, but the counters must not change while they are read. So the function that
    reads them is passed to ``run``, which calls it in a suitable thread and returns its result.
    """

    def __init__(
        self, read: Callable[[], ServerReading], prefix: str = DEFAULT_PREFIX, run: Run = lambda collect: collect()
    ) -> None:
        self._read = read
        self._run = run
        self._prefix = prefix
        self._ledger = RatioLedger()

    def collect(self) -> Iterator[Metric]:
        return iter(self._run(lambda: list(self._metrics())))

    def _metrics(self) -> Iterator[Metric]:
        for family, points in read_families(self._read(), self._ledger):
            metric = self._metric(family)
            if family.kind == "histogram":
                metric.samples = _histogram_samples(metric.name, family, points)
            else:
                name = f"{self._prefix}_{family.suffix}"
                metric.samples = [Sample(name, _labelled(family, labels), value) for labels, value in points]  # type: ignore[arg-type]
            yield metric

    def describe(self) -> Iterator[Metric]:
        """Return the metrics without series, which a registry uses to detect clashes of names at registration."""
        return map(self._metric, FAMILIES)

    def register(self, registry: CollectorRegistry) -> None:
        """Register this with ``registry``; two collectors with the same prefix can't share a registry."""
        try:
            registry.register(self)
        except ValueError as error:
            rule = "another collector of this registry has metrics of these names"
            hint = "Give each middleware a registry of its own (the default), or a prefix of its own"
            raise InvalidValueError("prefix", self._prefix, rule, hint) from error

    def write(self, *, open_metrics: bool) -> bytes:
        """Return the metrics as text, quickly: in OpenMetrics' format, or else in Prometheus' older format."""
        return write_text(self._prefix, read_families(self._read(), self._ledger), open_metrics=open_metrics)

    def _metric(self, family: Family) -> Metric:
        return Metric(metric_name(family, self._prefix), family.help, family.kind)

    def __repr__(self) -> str:
        return f"<APFCollector of {self._prefix}_*>"


def _labelled(family: Family, labels: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(family.labels, labels, strict=True))


def _histogram_samples(name: str, family: Family, points: list[Point]) -> list[Sample]:
    samples = []
    bucket, buckets = f"{name}_bucket", family.buckets
    for values, histogram in points:
        if isinstance(histogram, Histogram):
            labels = _labelled(family, values)
            count = 0
            for le, count in zip(buckets, accumulate(histogram.counts), strict=True):
                samples.append(Sample(bucket, {**labels, "le": le}, count))
            samples.append(Sample(f"{name}_count", labels, count))
            samples.append(Sample(f"{name}_sum", labels, histogram.total / family.unit))
    return samples
