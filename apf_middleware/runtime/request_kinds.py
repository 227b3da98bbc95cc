"""The numbers of read-only and mutating requests, executing and waiting in the whole server, over time.

Each level counts both kinds separately, so sampling adds no cost to a request. The times are estimates: while there is
traffic the numbers are read twenty times a second, and each sample stands for the time until the next one. The first
sample after an idle period is taken at a random time, so that a state shorter than the sampling period is observed with
a probability in proportion to its length.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Final

from apf_middleware.counters import Occupancy
from apf_middleware.runtime.alarm import Alarm
from apf_middleware.runtime.level import LevelRuntime, RequestKinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apf_middleware.counters import Times

__all__ = ["KindSampler"]

_PERIOD_NS: Final = 50_000_000
_LABELS: Final = (
    ("executing", "readOnly"),
    ("executing", "mutating"),
    ("waiting", "readOnly"),
    ("waiting", "mutating"),
)
"""The labels of the numbers in metrics: phase and kind."""


class KindSampler:
    """A sampler of the numbers of ``levels``, active from `begin` until nothing happens between two samples.

    Then ``on_rest`` is called, and `begin` has to be called again when the next request arrives. ``now`` is the clock.
    """

    def __init__(
        self,
        levels: Callable[[], Iterable[LevelRuntime]],
        now: Callable[[], int],
        on_rest: Callable[[], None],
        chance: Random | None = None,
    ) -> None:
        self._levels = levels
        self._now = now
        self._on_rest = on_rest
        self._chance = Random() if chance is None else chance  # noqa: S311 - not for security
        self._alarm = Alarm(self.sample, now)
        self._is_resting = True
        self._dispatched = 0
        self._occupancy = Occupancy(now(), RequestKinds(0, 0, 0, 0))

    def begin(self) -> None:
        """Begin to sample; further calls do nothing, unless the event loop has changed."""
        first = int(self._chance.random() * _PERIOD_NS) if self._is_resting else _PERIOD_NS
        self._is_resting = False
        self._alarm.ask(self._now() + first)

    def sample(self) -> None:
        """Take a sample, and schedule the next one unless the server is idle."""
        kinds, dispatched = RequestKinds(0, 0, 0, 0), 0
        for level in self._levels():
            kinds = level.add_kinds(kinds)
            dispatched += level.dispatched
        now = self._now()
        self._occupancy.set(now, kinds)
        if any(kinds) or dispatched != self._dispatched:
            self._alarm.ask(now + _PERIOD_NS)
        else:
            self._is_resting = True
            self._on_rest()
        self._dispatched = dispatched

    def times(self) -> "Mapping[tuple[str, str], Times]":
        """Return, by phase and kind, the nanoseconds for which each number of requests lasted."""
        return dict(zip(_LABELS, self._occupancy.times(self._now()), strict=True))

    def end(self) -> None:
        """Stop sampling."""
        self._alarm.cancel()

    def __repr__(self) -> str:
        return f"<KindSampler: {self._occupancy.values}{', resting' if self._is_resting else ''}>"
