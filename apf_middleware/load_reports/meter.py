"""The load of a server, smoothed over a short time, from samples of its counters."""

from collections.abc import Mapping
from dataclasses import field
from math import exp
from typing import Final

from apf_middleware.frozen import frozen
from apf_middleware.load_reports.report import LoadReport

__all__ = ["LoadMeter", "LoadSample"]

_SECOND: Final = 10**9
_UTILISATION_S: Final = 1.0  # the time over which utilisations are smoothed
_RATE_S: Final = 5.0  # the time over which rates are smoothed
_LEAST_S: Final = 1.0  # the time after which they are known: one request in the first millisecond is no rate


@frozen
class LoadSample:
    """What a server's counters say at one moment.

    ``served`` and ``errors`` count requests since the start, and ``cpu_ns`` is the time of the processor. The server
    and the levels have their utilisations: the mean of the seats in use and waited for since the sample before, divided
    by the limit.
    """

    utilisation: float
    served: int
    errors: int
    cpu_ns: int = 0
    levels: Mapping[str, float] = field(default_factory=dict)


class LoadMeter:
    """Smooth samples; the first one was taken at ``now``."""

    __slots__ = ("_at", "_counted_at", "_cpu", "_eps", "_last", "_levels", "_rps", "_utilisation")

    def __init__(self, now: int, sample: LoadSample) -> None:
        self._at = self._counted_at = now
        self._last = sample
        self._utilisation = sample.utilisation
        self._levels = dict(sample.levels)
        self._rps: float | None = None
        self._eps = self._cpu = 0.0

    def take(self, now: int, sample: LoadSample) -> None:
        """Take the next sample."""
        seconds = (now - self._at) / _SECOND
        if seconds <= 0:
            return
        part = 1 - exp(-seconds / _UTILISATION_S)
        self._utilisation += (sample.utilisation - self._utilisation) * part
        before = self._levels
        self._levels = {
            name: (found := before.get(name, value)) + (value - found) * part for name, value in sample.levels.items()
        }
        self._at = now
        self._count(now, sample)

    def _count(self, now: int, sample: LoadSample) -> None:
        """Smooth the rates at which the counters grow."""
        seconds = (now - self._counted_at) / _SECOND
        if self._rps is None and seconds < _LEAST_S:
            return
        last, self._last, self._counted_at = self._last, sample, now
        # A counter that falls has been forgotten with its schema.
        rps = max(0, sample.served - last.served) / seconds
        eps = max(0, sample.errors - last.errors) / seconds
        cpu = (sample.cpu_ns - last.cpu_ns) / _SECOND / seconds
        if self._rps is None:
            self._rps, self._eps, self._cpu = rps, eps, cpu
            return
        part = 1 - exp(-seconds / _RATE_S)
        self._rps += (rps - self._rps) * part
        self._eps += (eps - self._eps) * part
        self._cpu += (cpu - self._cpu) * part

    def report(self) -> LoadReport:
        """Return the load now."""
        named = {f"apf.{name}.utilization": value for name, value in self._levels.items()}
        return LoadReport(self._utilisation, self._rps or 0.0, self._eps, self._cpu, named)

    def __repr__(self) -> str:
        return f"<LoadMeter: {self.report().as_text()}>"
