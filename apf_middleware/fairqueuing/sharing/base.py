"""What sharing is: the interface, and what both ways of it have in common.

A `Sharing` owns the levels of one server: it opens them, tells each at every moment how many seats it may use, and lets
those go that a new configuration doesn't name. Such a level *drains*: it takes nobody in, has seats as if it were still
wanted for as long as requests wait there, and is forgotten when it is idle. Meanwhile a level of the same name may have
been opened anew; if it is of the same kind, and not over for good, the draining one is revived instead.

A level that can never have a seat is a *jail*: it rejects everything at once, for nobody can be helped by waiting.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from apf_middleware.exceptions import ClockError, InvalidValueError, require_integer
from apf_middleware.fairqueuing.allocation import LevelLimits
from apf_middleware.fairqueuing.disciplines import Discipline, EqualSerial
from apf_middleware.fairqueuing.settings import QueueSetSettings
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY, Hierarchy, Parent, require_hierarchy
from apf_middleware.fairqueuing.sharing.level import SharedLevel, require_level
from apf_middleware.fairqueuing.snapshot import QueueSetSnapshot
from apf_middleware.fairqueuing.ticket import Reason, Ticket
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS

__all__ = ["JAIL", "LevelSnapshot", "Sharing", "SharingSnapshot", "Wanted", "refuse_time"]

Wanted = Mapping[str, tuple[QueueSetSettings, LevelLimits]]
"""The levels that a server is to have, by name."""

JAIL: Final = QueueSetSettings.without_queues(0)


@dataclass(frozen=True, slots=True)
class LevelSnapshot:
    """One level; ``alone_count`` of its requests came and went with nobody else there."""

    name: str
    exempt: bool
    is_draining: bool
    limits: LevelLimits
    current: int
    alone_count: int
    queueset: QueueSetSnapshot


@dataclass(frozen=True, slots=True)
class SharingSnapshot:
    """A server's seats and levels; those that are to go come last."""

    seats: int
    levels: tuple[LevelSnapshot, ...]


class Sharing(ABC):
    """The levels of a server with so many ``seats``: who is seated when requests arrive, give up and finish.

    ``wanted`` are the levels, by name; ``discipline`` and ``guess_ns`` are as for a `QueueSet`. Every call returns the
    tickets that it seated, of any level, and whoever called wakes them. Unless ``may_rest``, the queue sets are told at
    once of requests that are alone in their level, which takes longer and comes to the same. ``hierarchy`` gives levels
    parents and priorities.

    Before the time ``quick_until`` who is alone in a limited level, and comes and goes so, is nothing that a sharing
    must hear of: the level itself can be asked (see `SharedLevel.seat_alone`). With 0 it must hear of everybody.
    """

    __slots__ = (
        "_discipline",
        "_guess_ns",
        "_may_rest",
        "_strict",
        "draining",
        "levels",
        "parents",
        "quick_until",
        "seats",
    )

    def __init__(
        self,
        seats: int,
        wanted: Wanted,
        *,
        discipline: Callable[[int, int], Discipline[Any]] = EqualSerial,
        guess_ns: int = DEFAULT_GUESS_NS,
        strict_upstream: bool = False,
        may_rest: bool = True,
        hierarchy: Hierarchy = NO_HIERARCHY,
        now: int = 0,
    ) -> None:
        self._discipline = discipline
        self._guess_ns = guess_ns
        self._strict = strict_upstream
        self._may_rest = may_rest
        self.seats: int = 0
        self.quick_until: int = 0
        self.levels: dict[str, SharedLevel] = {}
        self.draining: list[SharedLevel] = []
        self.parents: dict[str, Parent] = {}
        require_integer("now", now)
        _require_levels(seats, wanted, hierarchy)
        self._prepare(now)
        self._adopt(now, seats, wanted, hierarchy)
        self._share_out(now)

    @abstractmethod
    def _prepare(self, now: int) -> None:
        """There are no levels yet."""

    # What happens to tickets

    @abstractmethod
    def arrive(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket`` in at ``level``: afterwards it is seated, waiting, or rejected for a reason."""

    @abstractmethod
    def abandon(
        self, now: int, level: SharedLevel, ticket: Ticket, reason: Reason = Reason.TIME_OUT
    ) -> Sequence[Ticket]:
        """Take ``ticket`` out of its queue unserved; it is rejected for ``reason``.

        Unless what was due by ``now`` seats it first: then it is among the tickets returned.
        """

    @abstractmethod
    def unpark(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """``ticket``, which a gate had parked, may have a turn again."""

    def arrive_parked(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket`` in at ``level``, parked until `unpark`; or it is rejected."""
        ended = self.tick(now)
        level.wake()
        level.quick_width = 0
        level.queueset.arrive_parked(now, ticket)
        return ended

    @abstractmethod
    def release(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """``ticket`` has finished. Its seats come free now, or when its linger ends."""

    # Time

    @abstractmethod
    def tick(self, now: int) -> Sequence[Ticket]:
        """Let happen what was due by ``now``."""

    @abstractmethod
    def next_event_at(self) -> int | None:
        """Return when `tick` must be called: a linger ends, or limits are adjusted while requests wait."""

    # Levels

    @abstractmethod
    def limit_of(self, level: SharedLevel) -> int:
        """How many seats ``level`` may use at this moment."""

    def reconfigure(
        self, now: int, seats: int, wanted: Wanted, hierarchy: Hierarchy = NO_HIERARCHY
    ) -> Sequence[Ticket]:
        """Other seats, other levels, other limits. Nobody who waits or runs loses a place."""
        _require_levels(seats, wanted, hierarchy)
        ended = self.tick(now)
        self._wake_all()
        self._adopt(now, seats, wanted, hierarchy)
        seated = self._share_out(now)
        return [*ended, *seated]

    def operate(self, now: int, level: SharedLevel, *, held: bool = False, closing: bool = False) -> Sequence[Ticket]:
        """From now on nobody of ``level`` is seated (if ``held``), or nobody may come to it (if ``closing``)."""
        ended = self.tick(now)
        self._wake_all()
        level.is_held, level.is_closing = held, closing
        if not level.is_draining:
            level.queueset.quiesce(reopen=not closing, closing=closing)
        seated = self._retell(now)
        return [*ended, *seated]

    def forget_drained(self, now: int) -> None:
        """Somebody has left a queue without any of the calls above: perhaps that was the last one of a level."""
        for level in [one for one in self._all() if one.is_draining or one.is_closing]:
            self._note(now, level)

    @abstractmethod
    def _note(self, now: int, level: SharedLevel) -> None:
        """Something has happened to ``level``."""

    def _adopt(self, now: int, seats: int, wanted: Wanted, hierarchy: Hierarchy) -> None:
        """Open the levels that are missing, and let those go that aren't wanted."""
        self.seats = seats
        drained = not self.draining
        had = {name: parent.limits.min if drained else parent.kept for name, parent in self.parents.items()}
        self.parents = {
            name: Parent(name, limits, hierarchy.weight(name, limits), min(limits.min, had.get(name, 0)))
            for name, limits in hierarchy.parents.items()
        }
        before = [*self.levels.values(), *self.draining]
        self.levels.clear()
        for name, (settings, limits) in wanted.items():
            level = next((one for one in before if _may_stay(one, name, settings)), None)
            if level is None:
                level = self._open(now, name, settings, limits)
            else:
                before.remove(level)
                level.kept = min(limits.min, level.limits.min if drained else level.kept)
                level.settings, level.limits = settings, limits
                if level.is_draining:
                    level.is_draining = False
                    level.queueset.quiesce(reopen=True)
            self.levels[name] = level
            level.parent = self.parents.get(hierarchy.parent_of.get(name, ""))
            level.weight = hierarchy.weight(name, limits)
            level.shares = hierarchy.shares.get(name)
            level.rank_borrower(hierarchy.priorities.get(name, 0))
        self.draining = [level for level in before if not level.is_idle]
        for level in before:
            level.quick_width = level.least = level.counted = 0
            level.parent = None if level.parent is None else self.parents.get(level.parent.name)
            level.is_held = level.is_closing = False
            level.rank_borrower(0)
            if drained:
                level.kept = level.limits.min
            level.is_draining = True
            level.queueset.quiesce()

    def _open(self, now: int, name: str, settings: QueueSetSettings, limits: LevelLimits) -> SharedLevel:
        level = SharedLevel(
            name,
            settings,
            limits,
            discipline=self._discipline,
            guess_ns=self._guess_ns,
            strict_upstream=self._strict,
            may_rest=self._may_rest,
            now=now,
            ceiling=self._first_ceiling(limits),
        )
        level.find_limit = self.limit_of
        return level

    @staticmethod
    @abstractmethod
    def _first_ceiling(limits: LevelLimits) -> int | None:
        """The ceiling that a level's queue set is made with."""

    @abstractmethod
    def _share_out(self, now: int) -> Sequence[Ticket]:
        """Levels or limits are others: tell every level what that comes to."""

    @abstractmethod
    def _retell(self, now: int) -> Sequence[Ticket]:
        """A level is held, closes or opens: the same for that."""

    def _wake_all(self) -> None:
        for level in self._all():
            level.wake()

    def _all(self) -> Iterable[SharedLevel]:
        return [*self.levels.values(), *self.draining] if self.draining else self.levels.values()

    # Looking

    def snapshot(self) -> SharingSnapshot:
        """A frozen picture of now."""
        return SharingSnapshot(self.seats, tuple(map(self._picture, self._all())))

    @staticmethod
    def _picture(level: SharedLevel) -> LevelSnapshot:
        level.wake()
        return LevelSnapshot(
            name=level.name,
            exempt=level.exempt,
            is_draining=level.is_draining,
            limits=level.limits,
            current=level.current,
            alone_count=level.alone_count,
            queueset=level.queueset.snapshot(),
        )

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up, or where one who could sit is left standing."""
        for level in self._all():
            level.check()
        assert all(level.is_draining and not level.is_idle for level in self.draining), f"those that go from {self!r}"
        assert not any(level.is_draining for level in self.levels.values()), f"those that stay in {self!r}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.seats} seats among {len(self.levels)} levels>"


def _require_levels(seats: int, wanted: Wanted, hierarchy: Hierarchy) -> None:
    require_integer("seats", seats, least=0)
    for name, (settings, limits) in wanted.items():
        require_level(name, settings, limits)
    require_hierarchy(wanted, hierarchy)


def _may_stay(level: SharedLevel, name: str, settings: QueueSetSettings) -> bool:
    """Whether ``level`` is the one that is wanted under this name."""
    return level.name == name and level.exempt is settings.exempt and not level.is_over


def refuse_time(now: object, last: int) -> NoReturn:
    """Raise what is wrong with ``now``, the last call having been at ``last``."""
    if not isinstance(now, int) or isinstance(now, bool):
        raise InvalidValueError("now", now, "it must be an integer of nanoseconds")
    raise ClockError("now", now, f"it must not be before {last}", hint="Use one monotonic clock")
