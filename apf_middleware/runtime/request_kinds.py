"""For how long how many requests that read, and how many that write, were executing and waiting in the whole server.

A level counts those of its schemas apart, so to know how many there are costs a request nothing. The durations are
estimated: while requests come and go the numbers are read twenty times a second, and each reading stands for the time
until the next one. The first reading after a rest comes at a random time, so that what is shorter than the time between
two readings is met as often as it deserves.
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
"""Phase and kind of the numbers, as metrics call them."""


class KindSampler:
    """Reads the numbers of the ``levels`` now and then, from `begin` until nothing has happened between two readings.

    ``on_rest`` is called then, and `begin` is to be called when the next request comes. ``now`` is the clock.
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
        self._chance = Random() if chance is None else chance  # noqa: S311 - it guards nothing
        self._alarm = Alarm(self.sample, now)
        self._is_resting = True
        self._dispatched = 0
        self._occupancy = Occupancy(now(), RequestKinds(0, 0, 0, 0))

    def begin(self) -> None:
        """Requests come; again does nothing, unless the event loop is another than before."""
        first = int(self._chance.random() * _PERIOD_NS) if self._is_resting else _PERIOD_NS
        self._is_resting = False
        self._alarm.ask(self._now() + first)

    def sample(self) -> None:
        """Read the numbers, and again later if there is anything to be read."""
        levels = list(self._levels())
        kinds = RequestKinds(*map(sum, zip(*(level.count_kinds() for level in levels), strict=True)))
        dispatched = sum(level.dispatched for level in levels)
        now = self._now()
        self._occupancy.set(now, kinds)
        if any(kinds) or dispatched != self._dispatched:
            self._alarm.ask(now + _PERIOD_NS)
        else:
            self._is_resting = True
            self._on_rest()
        self._dispatched = dispatched

    def times(self) -> "Mapping[tuple[str, str], Times]":
        """By phase and kind, for how many nanoseconds there were how many requests."""
        return dict(zip(_LABELS, self._occupancy.times(self._now()), strict=True))

    def end(self) -> None:
        """Read no more."""
        self._alarm.cancel()

    def __repr__(self) -> str:
        return f"<KindSampler: {self._occupancy.values}{', resting' if self._is_resting else ''}>"
