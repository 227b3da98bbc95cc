"""The pool of seats that `Lending` lends from: what each level counts for, is promised and could have.

The part of it that knows no turns: sums that are kept up to date as levels use seats, and counted from scratch when
levels, limits or states are others. The rules are told in `lending`.
"""

from abc import abstractmethod
from collections.abc import Sequence

from apf_middleware.fairqueuing.allocation import LevelLimits
from apf_middleware.fairqueuing.reservation import Passed
from apf_middleware.fairqueuing.sharing.balance import Balance
from apf_middleware.fairqueuing.sharing.base import JAIL, Sharing
from apf_middleware.fairqueuing.sharing.level import SharedLevel
from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["Pool"]


class Pool(Sharing):
    """``total`` seats, of which ``_free`` are nobody's; ``waiting`` are the levels where somebody waits for a turn."""

    __slots__ = ("_backfills", "_balance", "_free", "_is_restless", "_passed", "total", "waiting")

    total: int
    waiting: list[SharedLevel]
    _backfills: bool
    _balance: Balance
    _free: int
    _is_restless: bool
    _passed: Passed

    @abstractmethod
    def _dispatch(self, now: int) -> Sequence[Ticket]:
        """Seat those whose turn it is, one by one."""

    # Counting

    def limit_of(self, level: SharedLevel) -> int:
        if level.exempt:
            return max(level.limits.min, level.counted)
        if level.is_held:
            return 0
        parent = level.parent
        room = self._free + level.counted if parent is None else parent.room(level, self._free)
        return max(level.least, min(level.most, room))

    def _count(self, level: SharedLevel, counted: int) -> None:
        """``level`` counts for so many seats from now on."""
        change = counted - level.counted
        level.counted = counted
        parent = level.parent
        self._free -= change if parent is None else parent.count(change)

    # Levels

    @staticmethod
    def _first_ceiling(limits: LevelLimits) -> int | None:
        return limits.max

    def _share_out(self, now: int) -> Sequence[Ticket]:
        self._recount(now)
        return self._dispatch(now)

    def _retell(self, now: int) -> Sequence[Ticket]:
        return self._share_out(now)

    def _recount(self, now: int) -> None:
        """Count from scratch: levels, limits or seats are others."""
        levels = list(self._all())
        self._promise(levels)
        self._balance.advance(now, self.waiting)
        self._balance.entitle(levels, self.parents.values(), self.total)
        self._backfills = any(level.settings.backfill for level in levels)
        self._is_restless = any(level.queueset.discipline.is_restless for level in levels)
        self.waiting = []
        for level in levels:
            queueset = level.queueset
            level.is_common = level.parent is None and not (level.is_held or queueset.is_quiescing)
            settings = level.settings if level.most or level.exempt else JAIL
            queueset.concurrency = 0  # whoever may be seated now is seated in turn
            queueset.note_passed_in(self._passed)
            if settings != queueset.settings or level.most != queueset.ceiling:
                queueset.reconfigure(now, settings, level.most)
            level.counted = 0
            self._count(level, max(queueset.seats_in_use, level.least))
            level.waits = queueset.waiting > 0 and not level.is_held
            if level.waits:
                self.waiting.append(level)
            level.quick_width = 0
            if queueset.is_idle:
                level.rest(now)
        self._divide()

    def _divide(self) -> None:
        """Who waits, or what there is for them, is different."""
        if len(self.waiting) > 1:
            self._balance.divide(self.waiting, self._free)
        else:
            for level in self.waiting:
                level.deserved = level.entitled

    def _promise(self, levels: Sequence[SharedLevel]) -> None:
        """How many seats each is promised, and how many it could ever have."""
        for level in levels:
            level.least = level.limits.min
            if level.is_draining:
                waits = level.queueset.waiting or level.queueset.parked
                level.least = level.kept if waits else min(level.kept, level.queueset.seats_in_use)
            if level.exempt or (level.is_closing and level.queueset.is_idle):
                level.least = 0
        for parent in self.parents.values():
            promised = sum(level.least for level in levels if level.parent is parent)
            parent.begin(promised, parent.limits.min)
        if any(level.least or level.queueset.waiting or level.queueset.parked for level in self.draining):
            self._make_room(levels)
        alone = [level for level in levels if level.parent is None]
        leaving = sum(level.least for level in alone if level.is_draining)
        staying = sum(level.least for level in alone) - leaving + sum(one.least for one in self.parents.values())
        self.total = self._free = max(self.seats, staying + leaving)
        spare = max(self.seats - staying, 0)
        for parent in self.parents.values():
            parent.most = max(parent.least, min(parent.limits.max, spare + parent.least))
            parent.counted = 0
            self._free -= parent.count(0)
        for level in levels:
            room = self.total - staying - leaving if level.is_draining else spare
            if level.parent is not None:
                room = level.parent.most - level.parent.promised
            level.most = level.limits.max if level.exempt else min(level.limits.max, room + level.least)

    def _make_room(self, levels: Sequence[SharedLevel]) -> None:
        """Requests of a level that drains need its seats: what is new or higher among the mins has to wait."""
        for level in levels:
            if not level.is_draining:
                level.least = min(level.least, level.kept)
        for parent in self.parents.values():
            promised = sum(level.least for level in levels if level.parent is parent)
            parent.begin(promised, parent.kept)
        alone = [level for level in levels if level.parent is None]
        promised = sum(level.least for level in alone) + sum(parent.least for parent in self.parents.values())
        if promised >= self.seats:  # there are fewer seats than before, or none that is not promised
            for level in alone:
                if level.is_draining and not level.exempt:
                    level.least = min(level.least, 1) or int(bool(level.queueset.waiting or level.queueset.parked))

    def _forget(self, now: int, level: SharedLevel) -> None:
        """``level`` has drained."""
        level.least = level.counted = 0
        if level in self.draining:
            self.draining.remove(level)
            self._wake_all()
            self._recount(now)

    # Looking

    def check(self) -> None:
        levels = list(self._all())
        for level in levels:
            level.queueset.concurrency = 0  # a queue set alone can't tell who could sit
        super().check()
        for level in levels:
            used = level.queueset.seats_in_use
            alone = 1 if level.exempt and level.alone else 0
            assert level.counted == max(used, level.least) + alone, f"what counts for {level!r}"
            waits = level.queueset.waiting > 0 and not level.is_held
            assert level.waits is waits is (level in self.waiting), f"whether {level!r} waits"
        for parent in self.parents.values():
            counted = sum(level.counted for level in levels if level.parent is parent)
            expected = counted, max(counted, parent.least)
            assert (parent.total, parent.counted) == expected, f"what counts for {parent!r}"
        members = [(one.counted, one.least) for one in levels if one.parent is None]
        members += [(one.counted, one.least) for one in self.parents.values()]
        assert self._free == self.total - sum(counted for counted, _ in members), f"the free seats of {self!r}"
        assert self.total == max(self.seats, sum(least for _, least in members)), f"the seats of {self!r}"
