"""The levels among which a server shares its seats: opened, kept through reloads, drained and forgotten.

A level that a new configuration doesn't name *drains*: it accepts no new requests, keeps its seats for as long as
requests wait there, and is forgotten when it is idle. If a later configuration names it again, it is revived, unless
only one of the two is exempt, or the draining level ``is_over``. In these cases a new level of the same name is opened
while the former one drains.
"""

from collections.abc import Callable, Iterator, Mapping

from apf_middleware.exceptions import require_integer
from apf_middleware.fairqueuing.queueset import QueueSet
from apf_middleware.fairqueuing.queueset_settings import QueueSetSettings
from apf_middleware.fairqueuing.sharing.base import Wanted
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy, Parent, require_hierarchy
from apf_middleware.fairqueuing.sharing.level import NO_CAP, SharedLevel, require_level
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.snapshots import SharingSnapshot

__all__ = ["SharedLevels"]


class SharedLevels:
    """The levels ``by_name``, those that are ``draining``, and their ``parents``.

    ``make_queueset`` is `QueueSet` with the options that are the same for all levels, and ``may_rest`` is as for a
    `SharedLevel`. With a function ``limit_of``, seats are lent at each dispatch and queue sets are steered. The
    containers are changed in place only.
    """

    __slots__ = ("_limit_of", "_make_queueset", "_may_rest", "by_name", "draining", "parents")

    def __init__(
        self,
        make_queueset: Callable[..., QueueSet],
        *,
        may_rest: bool,
        limit_of: Callable[[SharedLevel], int] | None = None,
    ) -> None:
        self._make_queueset = make_queueset
        self._may_rest = may_rest
        self._limit_of = limit_of
        self.by_name: dict[str, SharedLevel] = {}
        self.draining: list[SharedLevel] = []
        self.parents: dict[str, Parent] = {}

    def __iter__(self) -> Iterator[SharedLevel]:
        """Iterate over the levels and then those that drain; none may be opened or forgotten during the iteration."""
        yield from self.by_name.values()
        yield from self.draining

    @staticmethod
    def require(seats: int, wanted: Wanted, hierarchy: Hierarchy) -> None:
        """Raise InvalidValueError unless these levels can share this number of ``seats``."""
        require_integer("seats", seats, least=0)
        for name, (settings, limits) in wanted.items():
            require_level(name, settings, limits)
        require_hierarchy(wanted, hierarchy)

    # Changing

    def adopt(self, now: int, wanted: Wanted, hierarchy: Hierarchy) -> None:
        """Open the levels of ``wanted`` that are missing, and drain those that it doesn't name."""
        if not self.draining:
            self._keep_mins()
        self._adopt_parents(hierarchy)
        before = list(self)
        self.by_name.clear()
        for name, (settings, limits) in wanted.items():
            # Levels in force come before those that drain, so of two with this name the one in force stays.
            level = next((one for one in before if _may_stay(one, name, settings)), None)
            if level is None:
                level = self._open(now, name, settings, limits)
            else:
                before.remove(level)
                level.settings, level.limits = settings, limits
                if level.is_draining:
                    level.is_draining = False
                    level.queueset.quiesce(reopen=True)
            self.by_name[name] = level
            level.parent = self.parents.get(hierarchy.parent_of.get(name, ""))
            level.weight = hierarchy.weight(name, limits)
            level.shares = hierarchy.shares.get(name)
            level.rank_borrower(hierarchy.priorities.get(name, 0))
        # A level that is idle already is forgotten at once.
        self.draining[:] = (level for level in before if not level.is_idle)
        for level in before:
            self._drain(level)

    def _keep_mins(self) -> None:
        """Note the mins before a level drains: until it has drained, the others are promised no more.

        After several reloads or changes of the total in a row, these are the mins before the first one.
        """
        for level in self:
            level.kept = level.limits.min
        for parent in self.parents.values():
            parent.kept = parent.limits.min

    def _open(self, now: int, name: str, settings: QueueSetSettings, limits: LevelLimits) -> SharedLevel:
        # The concurrency of a steered queue set changes at each step, so it also gets its max, as the ceiling.
        ceiling = None if self._limit_of is None else limits.max
        queueset = self._make_queueset(settings, now=now, ceiling=ceiling)
        return SharedLevel(name, settings, limits, queueset, may_rest=self._may_rest, limit_of=self._limit_of, now=now)

    def _adopt_parents(self, hierarchy: Hierarchy) -> None:
        kept = {name: parent.kept for name, parent in self.parents.items()}
        self.parents.clear()
        for name, limits in hierarchy.parents.items():
            self.parents[name] = Parent(name, limits, hierarchy.weight(name, limits), kept.get(name, 0))

    def _drain(self, level: SharedLevel) -> None:
        level.alone_width = level.least = level.counted = 0
        # the parents have just been made anew
        level.parent = None if level.parent is None else self.parents.get(level.parent.name)
        # A draining level serves what waits, even if an operator had paused it. But if the level is over, its waiting
        # requests are about to be rejected.
        level.is_held, level.is_closing = level.is_over, False
        level.rank_borrower(0)
        level.set_cap(NO_CAP)
        level.kept = min(level.kept, level.limits.min)
        level.is_draining = True
        level.queueset.quiesce()

    def forget(self, level: SharedLevel) -> bool:
        """Forget ``level``, which has drained; return False if that has been done before."""
        if level not in self.draining:
            return False
        self.draining.remove(level)
        return True

    def operate(self, level: SharedLevel, *, held: bool, closing: bool) -> None:
        """Set whether ``level`` is ``held`` (it seats no request) and ``closing`` (it rejects new requests)."""
        # first, because a queue set must know all requests when its state changes
        self.settle_alone()
        level.is_held, level.is_closing = held, closing
        # a draining level must not accept requests again
        if not level.is_draining:
            level.queueset.quiesce(reopen=not closing, closing=closing)

    def cap(self, caps: Mapping[str, int], pause_ns: int) -> None:
        """Set the caps of all levels in force."""
        self.settle_alone()
        for name, level in self.by_name.items():
            level.set_cap(NO_CAP if level.exempt else caps.get(name, NO_CAP), pause_ns)

    def settle_alone(self) -> None:
        """Bring the queue sets of all levels up to date (see `SharedLevel.settle_alone`)."""
        for level in self:
            level.settle_alone()

    def leaving(self) -> list[SharedLevel]:
        """Return the levels that drain or close, and so must be examined when their last request has left."""
        return [level for level in self if level.is_draining or level.is_closing]

    # Looking

    def snapshot(self, seats: int) -> SharingSnapshot:
        """Return a frozen snapshot; levels that drain come last."""
        self.settle_alone()
        return SharingSnapshot(seats, tuple(level.snapshot() for level in self))

    def check(self) -> None:
        """Raise AssertionError if a level is inconsistent, or in the wrong collection."""
        for level in self:
            level.check()
        assert all(level.is_draining and not level.is_idle for level in self.draining), f"draining levels of {self!r}"
        assert not any(level.is_draining for level in self.by_name.values()), f"levels that stay in {self!r}"

    def __repr__(self) -> str:
        return f"<SharedLevels: {len(self.by_name)}, and {len(self.draining)} draining>"


def _may_stay(level: SharedLevel, name: str, settings: QueueSetSettings) -> bool:
    """Return whether ``level`` can stay as the level of this ``name`` with these ``settings``."""
    return level.name == name and level.exempt is settings.exempt and not level.is_over
