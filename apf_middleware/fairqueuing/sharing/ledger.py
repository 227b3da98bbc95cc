"""The ledger of `Lending`: the number of seats that each level is promised, counts for, and may use.

T seats are shared: those of the server, or the sum of all mins if that is larger, because mins are promised. A limited
level *counts for* the seats that it uses or its min, whichever is larger. An exempt level counts for the seats that it
uses. A parent counts for the sum of its children's counts or its min, whichever is larger. ``free`` is T minus the
counts of all parents, and of all levels without a parent.

A member of a fleet shares fewer seats: those of its grant (see `grant`). Then no level or parent is promised more than
the grant says, and no level may use more than its part of the max, or than the largest grant that is possible. Its max
is that of the whole fleet: how many of this member's seats are kept for the mins of other levels is said by the grant.
If more seats are in use than were granted, nothing is promised, so no request begins until enough have ended. While
seats that are promised to a level or parent are in use by others, they are *withheld*: T is reduced by them until
enough seats are free, which is looked at when a grant comes and when seats are given back. (A promise may be used at
any time, so it would exceed the grant.)

The sums are updated when a level uses more or fewer seats (`SeatLedger.count`), and computed again when levels, limits
or states change (`SeatLedger.promise`). `lending` explains how they are used.
"""

from collections.abc import Collection, Iterable, Sequence

from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.sharing.hierarchy import Parent
from apf_middleware.fairqueuing.sharing.level import SharedLevel

__all__ = ["SeatLedger", "is_parent_closed"]


class SeatLedger:
    """``total`` seats, of which ``free`` are in no level's count; ``withheld`` are others."""

    __slots__ = ("free", "total", "withheld")

    def __init__(self) -> None:
        self.total: int = 0
        self.free: int = 0
        self.withheld: int = 0

    # From dispatch to dispatch

    def limit_of(self, level: SharedLevel) -> int:
        """Return how many seats ``level`` may use at this moment."""
        if level.exempt:
            return max(level.limits.min, level.counted)
        if level.is_held:
            return 0
        parent = level.parent
        room = self.free + level.counted if parent is None else parent.room(level.counted, self.free)
        # ``free`` is negative while exempt requests use more than there is; a level has its min even then.
        return max(level.least, min(level.most, room))

    def count(self, level: SharedLevel, counted: int) -> None:
        """Set the count of ``level`` to ``counted``."""
        change = counted - level.counted
        level.counted = counted
        parent = level.parent
        self.free -= change if parent is None else parent.count(change)

    # From configuration to configuration

    def promise(self, seats: int, levels: Sequence[SharedLevel], parents: Collection[Parent]) -> None:
        """Compute the promised and the maximum seats of each level and parent; the counts start at 0 again."""
        for level in levels:
            level.least = _promised(level)
        for parent in parents:
            _begin(parent, levels, parent.limits.min)
        if any(level.is_draining and (level.least or _has_waiting(level)) for level in levels):
            _make_room(seats, levels, parents)
        top = [level for level in levels if level.parent is None]
        leaving = sum(level.least for level in top if level.is_draining)
        staying = sum(level.least for level in top) - leaving + sum(one.least for one in parents)
        self.total = self.free = max(seats, staying + leaving)
        self.withheld = 0
        spare = max(seats - staying, 0)
        for parent in parents:
            parent.most = max(parent.least, min(parent.limits.max, spare + parent.least))
            # `count` returns the change since the former count, which the new ``free`` has never contained
            parent.counted = 0
            self.free -= parent.count(0)
        for level in levels:
            room = self.total - staying - leaving if level.is_draining else spare
            if level.parent is not None:
                room = level.parent.most - level.parent.promised
            level.most = level.limits.max if level.exempt else min(level.limits.max, room + level.least)
            level.ceiling = level.most

    def restrict(self, grant: SeatGrant, levels: Sequence[SharedLevel], parents: Collection[Parent]) -> None:
        """Replace the promises of `promise` by those of ``grant``, which bounds the maximum seats, too."""
        limited = [level for level in levels if not level.exempt]
        for parent in parents:
            parent.most = max(parent.least, parent.limits.max)
        for level in limited:
            level.ceiling = _ceiling_in_fleet(level, grant)
            level.most = min(level.ceiling, grant.maxes.get(level.name, level.ceiling))
            part = grant.levels.get(level.name)
            if part is None or level.is_draining or not level.least:
                level.least = 0
            else:
                level.least = min(part.least, level.most)
        for parent in parents:
            parent.most = min(parent.most, grant.maxes.get(parent.name, parent.most))
            _promise_within(parent.most, [level for level in limited if level.parent is parent])
        common = {parent: _common_promise(parent, limited, grant) for parent in parents}
        used = sum(level.queueset.seats_in_use for level in limited)
        missing = sum(max(0, level.least - level.queueset.seats_in_use) for level in limited)
        missing += sum(max(0, least - _used_beyond(parent, limited)) for parent, least in common.items())
        self.withheld = missing if used <= grant.seats < used + missing else 0
        self.total = self.free = grant.seats - self.withheld
        if used + missing > grant.seats:
            for parent, least in common.items():
                common[parent] = min(least, _used_beyond(parent, limited)) if self.withheld else 0
            for level in limited:
                level.least = min(level.least, level.queueset.seats_in_use) if self.withheld else 0
        for parent, least in common.items():
            promised = _promised_to_children(parent, levels)
            parent.begin(promised, promised + least)
            parent.counted = 0
            self.free -= parent.count(0)

    # Looking

    def check(self, seats: int, levels: Sequence[SharedLevel], parents: Collection[Parent]) -> None:
        """Raise AssertionError unless the sums are those of ``levels`` and ``parents``."""
        for level in levels:
            alone = 1 if level.exempt and level.alone else 0
            assert level.counted == max(level.queueset.seats_in_use, level.least) + alone, f"what counts for {level!r}"
        for parent in parents:
            counted = sum(level.counted for level in levels if level.parent is parent)
            expected = counted, max(counted, parent.least)
            assert (parent.total, parent.counted) == expected, f"what counts for {parent!r}"
        members = [(one.counted, one.least) for one in levels if one.parent is None]
        members += [(one.counted, one.least) for one in parents]
        assert self.free == self.total - sum(counted for counted, _ in members), f"the free seats of {self!r}"
        promised = sum(least for _, least in members)
        assert self.total == max(seats - self.withheld, promised), f"the seats of {self!r}"

    def __repr__(self) -> str:
        return f"<SeatLedger: {self.free} of {self.total} seats free>"


def is_parent_closed(parent: Parent, levels: Iterable[SharedLevel]) -> bool:
    """Return whether all children of ``parent`` are closed and idle, so that none of them can use its min."""
    children = [level for level in levels if level.parent is parent]
    return bool(children) and all(level.is_closing and level.is_idle for level in children)


def _begin(parent: Parent, levels: Sequence[SharedLevel], least: int) -> None:
    """Promise ``least`` seats to the children of ``parent``, unless these are closed; reset its count."""
    parent.begin(_promised_to_children(parent, levels), 0 if is_parent_closed(parent, levels) else least)


def _has_waiting(level: SharedLevel) -> bool:
    return bool(level.queueset.waiting or level.queueset.parked)


def _promised(level: SharedLevel) -> int:
    """Return the seats that ``level`` is promised if no other level drains."""
    if level.exempt or (level.is_closing and level.queueset.is_idle):
        return 0
    if level.is_draining:
        if level.queueset.waiting:
            return level.kept
        # Without requests that wait for seats, the level needs no more than those in use.
        needed = min(level.kept, level.queueset.seats_in_use)
        if level.queueset.parked:  # when these come back from their gates, other levels may have got the rest
            level.kept = needed
        return needed
    return level.limits.min


def _ceiling_in_fleet(level: SharedLevel, grant: SeatGrant) -> int:
    """Return the max of ``level`` in the whole fleet, which says what is left of it, besides the mins of others."""
    if not level.ceiling:
        return 0  # all seats are promised to others
    parent = level.parent
    most = level.limits.max if parent is None else min(level.limits.max, parent.most)
    return min(most, grant.most or most)


def _promise_within(most: int, children: Collection[SharedLevel]) -> None:
    """Promise the children of one parent no seats that would exceed its ``most`` while others of them use theirs."""
    room = most - sum(level.queueset.seats_in_use for level in children)
    for level in children:
        used = level.queueset.seats_in_use
        missing = max(0, min(level.least - used, room))
        level.least = min(level.least, used + missing) if room >= 0 else 0
        room -= missing


def _promised_to_children(parent: Parent, levels: Sequence[SharedLevel]) -> int:
    return sum(level.least for level in levels if level.parent is parent)


def _common_promise(parent: Parent, levels: Sequence[SharedLevel], grant: SeatGrant) -> int:
    """Return what ``grant`` promises the children of ``parent`` together, beyond what it promises each of them."""
    part = grant.levels.get(parent.name)
    is_of_level = any(level.name == parent.name for level in levels)  # which drains, and isn't a child
    if part is None or is_of_level or is_parent_closed(parent, levels):
        return 0
    return max(0, min(part.least, parent.most - _promised_to_children(parent, levels)))


def _used_beyond(parent: Parent, levels: Sequence[SharedLevel]) -> int:
    """Return the seats that the children of ``parent`` use beyond what each of them is promised."""
    children = [level for level in levels if level.parent is parent]
    return sum(max(0, level.queueset.seats_in_use - level.least) for level in children)


def _make_room(seats: int, levels: Sequence[SharedLevel], parents: Collection[Parent]) -> None:
    """Postpone new and higher mins, because the requests of a draining level need its seats."""
    for level in levels:
        if not level.is_draining:
            level.least = min(level.least, level.kept)
    for parent in parents:
        _begin(parent, levels, parent.kept_least)
    top = [level for level in levels if level.parent is None]
    promised = sum(level.least for level in top) + sum(parent.least for parent in parents)
    if promised < seats:
        return
    # There are fewer seats than before, or every seat is promised. A draining level then keeps one seat, to finish,
    # unless it has seats within the min of its parent. A level with a max of 0 seats never had one.
    for level in levels:
        if level.is_draining and not _has_seat_in_parent(level):
            level.least = min(level.least, 1) or int(level.queueset.waiting > 0 and level.limits.max > 0)
    for parent in parents:
        _begin(parent, levels, parent.kept_least)


def _has_seat_in_parent(level: SharedLevel) -> bool:
    """Return whether the min of its parent has a seat for ``level``, besides those that its siblings are promised."""
    parent = level.parent
    if parent is None or parent.promised > parent.kept_least:
        return False
    return level.least > 0 or parent.promised < parent.kept_least
