"""The seats that each level deserves while several wait, and the lag of its service behind that.

**Deserved seats.** The seats that the waiting levels can use together are divided in proportion to their weights. Each
level gets at least the seats that it is promised, and at most its max or the seats that it asks for. If priorities
differ, each level first gets at most its part of a server on which all levels are busy; the rest goes to the highest
priority. Children of one parent divide the seats that the parent deserves.

**Lag.** Deserved seats are fractions, and seats in use are integers. A level that deserves 2.25 seats should use 2 of
them for three quarters of the time and 3 for the rest. Its *lag* is the integral of the seats that it deserves less
those that it uses. A seat of which several levels deserve a part goes to the one with the largest lag in proportion to
its weight. If seats were rounded instead, the same level would always get that seat. While a request of several seats
waits and some of the divided seats are empty, because they are saved up for it, each level is taken to deserve that
much less, in proportion. Otherwise all levels would lag behind at once, and the lags would say nothing.

The lag is kept only while a level waits beside others, or uses more than it deserves while others wait. (A level with a
few long requests hardly ever waits while they run. If these seats weren't counted, it would get many times its share.)
It is bounded by twice the longest recent work of a request. So a level is neither compensated nor charged for more than
that, regardless of the history. A level that is ahead and waits for a request of several seats must come to its turn
again, also if the others don't wait long. So its lag rises towards 0 while it waits alone, and in full while seats are
empty although none of the waiting levels comes before it.

All amounts are integers, in units of ``SEAT``, so sums don't depend on the order of additions.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.hierarchy import Parent
    from apf_middleware.fairqueuing.sharing.level import SharedLevel

__all__ = ["SEAT", "Balance", "Claim", "fill"]

_BITS: Final = 20
SEAT: Final = 1 << _BITS
"""One seat, in the unit of deserved seats."""

_FADES: Final = 10  # the longest work decreases by one part in 2**10 with each request that ends

Claim = tuple[int, int, int]
"""Weight, lower and upper bound."""


def fill(total: int, claims: Sequence[Claim]) -> list[int]:
    """Divide ``total`` in proportion to the weights within the bounds; each part is rounded down.

    If the sum of the lower bounds exceeds the total, each part is its lower bound.
    """
    parts = [lower for _, lower, _ in claims]
    free = list(range(len(claims)))
    while free:
        # what the fixed parts leave for the others
        room = total - sum(parts) + sum(parts[place] for place in free)
        weights = sum(claims[place][0] for place in free)
        if not weights:
            return parts
        # ``missing`` is what the lower bounds add minus what the upper bounds cut off. It is multiplied by the sum of
        # the weights, so that it is an exact integer.
        low, high, missing = [], [], 0
        for place in free:
            weight, lower, upper = claims[place]
            part = room * weight // weights
            if part < lower:
                low.append(place)
                missing += lower * weights - room * weight
            elif part > upper:
                high.append(place)
                missing -= room * weight - upper * weights
        if not low and not high:
            for place in free:
                parts[place] = room * claims[place][0] // weights
            return parts
        # Only the side that moves more is fixed in this round: the seats that it takes or leaves could move parts of
        # the other side away from their bounds.
        held = low if missing > 0 else high if missing < 0 else low + high
        for place in held:
            parts[place] = claims[place][1 if place in low else 2]
        free = [place for place in free if place not in held]
    return parts


class Balance:
    """Update ``deserved`` and ``lag`` of the levels that wait, as time passes."""

    __slots__ = ("_unbound_total", "are_wide", "clock", "longest", "users")

    def __init__(self, now: int) -> None:
        self.clock: int = now
        self.are_wide: bool = False  # a waiting request needs several seats
        self._unbound_total: int | None = None  # the seats divided last, if no bound applied to any level
        self.longest: int = 0  # work of one request, in nanoseconds times SEAT
        # Levels that don't wait any more, and use more seats than they deserve while others wait
        self.users: list[SharedLevel] = []

    def entitle(self, levels: Iterable["SharedLevel"], parents: Iterable["Parent"], total: int) -> None:
        """Set what each limited level would deserve of ``total`` seats if all of them were busy."""
        self._unbound_total = None
        limited = [level for level in levels if not level.exempt]
        families = list(parents)
        _entitle([*(level for level in limited if level.parent is None), *families], total * SEAT)
        for parent in families:
            _entitle([level for level in limited if level.parent is parent], parent.entitled)
        for level in limited:
            level.deserved = level.entitled

    def join(self, now: int, level: "SharedLevel") -> None:
        """Note that ``level`` begins to wait. Its lag is 0, or the last one if negative, raised towards 0 since."""
        # other levels wait now, so the former division doesn't apply
        self._unbound_total = None
        if level in self.users:
            self.users.remove(level)
            level.left_at = now
        level.lag = min(0, level.lag + (now - level.left_at) * level.entitled)

    def leave(self, now: int, level: "SharedLevel") -> None:
        """Note that ``level`` doesn't wait any more."""
        self._unbound_total = None
        level.left_at = now
        if level.queueset.seats_in_use * SEAT > level.deserved:
            self.users.append(level)
        else:
            level.deserved = level.entitled

    def observe(self, work_ns: int) -> None:
        """Note that a request with this work, in seat-nanoseconds, has ended."""
        work = work_ns * SEAT
        if work > self.longest:
            self.longest = work
        else:
            self.longest -= self.longest >> _FADES

    def advance(self, now: int, waiting: Sequence["SharedLevel"]) -> None:
        """Update the lags for the time since the last call, in which no seats were taken or given back."""
        elapsed = now - self.clock
        # also when fewer than two wait, so that this time never becomes lag
        self.clock = now
        if not elapsed:
            return
        if self.users:
            waiting = [*waiting, *self.users]
        if len(waiting) < 2:
            _reduce_lead(waiting, elapsed)
            return
        divided = used = 0
        if self.are_wide:
            for level in waiting:
                divided += level.deserved
                used += level.used_before * SEAT
            # whole seats are empty, but for what is lost as the parts are rounded down
            if divided - used > SEAT // 2:
                self._advance_beside_empty(elapsed, waiting, used, divided)
                return
        bound = 2 * self.longest
        for level in waiting:
            lag = level.lag + (level.deserved - level.used_before * SEAT) * elapsed
            level.lag = max(-bound, min(bound, lag))

    def _advance_beside_empty(self, elapsed: int, waiting: Sequence["SharedLevel"], used: int, divided: int) -> None:
        """Update the lags for a time in which only the part ``used`` of the ``divided`` seats were in use."""
        bound = 2 * self.longest
        is_in_turn = used > 0 and any(self._is_in_turn(level) for level in waiting)
        for level in waiting:
            deserved, most = level.deserved * used // divided, bound
            if level.lag < 0 and not is_in_turn:
                deserved, most = level.deserved, 0
            lag = level.lag + (deserved - level.used_before * SEAT) * elapsed
            level.lag = max(-bound, min(most, lag))

    def _is_in_turn(self, level: "SharedLevel") -> bool:
        """Return whether ``level`` is far behind, or isn't ahead and deserves at least one more seat.

        A level that has the largest possible lag doesn't count: something else stops it.
        """
        lag, longest = level.lag, self.longest
        return longest < lag < 2 * longest or (lag >= 0 and level.deserved - level.used_before * SEAT >= SEAT)

    def divide(self, waiting: Sequence["SharedLevel"], free: int) -> None:
        """Set the seats that each waiting level deserves beside others; ``free`` seats are counted for no level."""
        if self.users:
            waiting = [*waiting, *(one for one in self.users if not one.waits and one.queueset.seats_in_use)]
        if self._has_changed(waiting, free):
            self._divide(waiting, free)
        if self.users:
            self._keep([one for one in self.users if not one.waits and one.queueset.seats_in_use * SEAT > one.deserved])

    def end_wait(self) -> None:
        """Note that no level waits any more."""
        self._keep([])

    def _keep(self, users: "list[SharedLevel]") -> None:
        for level in self.users:
            if level not in users and not level.waits:
                level.left_at = self.clock
                level.deserved = level.entitled
        self.users = users

    def _divide(self, waiting: Sequence["SharedLevel"], free: int) -> None:
        families: dict[Parent, list[SharedLevel]] = {}
        top: list[SharedLevel | Parent] = []
        claims: list[Claim] = []
        classes: list[int] = []
        total = free
        for level in waiting:
            if level.parent is not None:
                families.setdefault(level.parent, []).append(level)
                continue
            top.append(level)
            classes.append(level.borrows_as)
            claims.append(_claim(level))
            total += level.counted
        for parent, children in families.items():
            top.append(parent)
            classes.append(min(child.borrows_as for child in children))
            # the seats of the children that don't wait, which aren't divided
            others = parent.total - sum(child.counted for child in children)
            upper = min(parent.most * SEAT, others * SEAT + sum(_claim(child)[2] for child in children))
            claims.append((parent.weight, parent.least * SEAT, max(parent.least * SEAT, upper)))
            total += parent.counted
        _deal(total * SEAT, top, claims, classes)
        is_unbound = not families and all(_is_free(one.deserved, claim) for one, claim in zip(top, claims, strict=True))
        self._unbound_total = total if is_unbound and len(set(classes)) == 1 else None
        for parent, children in families.items():
            others = parent.total - sum(child.counted for child in children)
            room = max(0, parent.deserved - others * SEAT)
            _deal(room, children, [_claim(child) for child in children], [child.borrows_as for child in children])

    def _has_changed(self, waiting: "Sequence[SharedLevel]", free: int) -> bool:
        """Record the seats in use; return False if the parts stay the same: the same total, and no bound applies."""
        before, total = self._unbound_total, free
        is_same = before is not None
        are_wide = False
        # no early end, because each level's ``used_before`` must be set
        for level in waiting:
            queueset = level.queueset
            used = level.used_before = queueset.seats_in_use
            waiting_seats = queueset.seats_waiting
            if waiting_seats > queueset.waiting:
                are_wide = True
            total += level.counted
            if is_same:
                wanted, deserved = used + waiting_seats, level.deserved
                is_same = level.least * SEAT <= deserved <= wanted * SEAT and deserved <= level.most * SEAT
        self.are_wide = are_wide
        return not is_same or total != before

    def __repr__(self) -> str:
        return f"<Balance: longest work {self.longest // SEAT} ns>"


def _entitle(members: "Sequence[SharedLevel | Parent]", total: int) -> None:
    """Divide ``total`` among ``members`` as if all were busy; none is entitled to more than its nominal seats."""
    parts = fill(total, [(one.weight, one.least * SEAT, one.most * SEAT) for one in members])
    for one, part in zip(members, parts, strict=True):
        one.entitled = min(part, max(one.limits.nominal, one.least) * SEAT)


def _reduce_lead(waiting: "Iterable[SharedLevel]", elapsed: int) -> None:
    """Raise the negative lag of a level that waits alone for a request of several seats, as if it didn't wait."""
    for level in waiting:
        if level.lag < 0 and level.queueset.seats_waiting > level.queueset.waiting:
            level.lag = min(0, level.lag + elapsed * max(level.entitled, SEAT))


def _is_free(part: int, claim: Claim) -> bool:
    return claim[1] < part < claim[2]


def _claim(level: "SharedLevel") -> Claim:
    queueset = level.queueset
    wanted = min(level.most, max(level.cap, level.least), queueset.seats_in_use + queueset.seats_waiting)
    # draining levels get seats before the others (see `lending`)
    least = max(level.least, min(wanted, level.before_others)) if level.is_draining else level.least
    return level.weight, least * SEAT, max(least, wanted) * SEAT


def _deal(
    total: int, members: Sequence["SharedLevel | Parent"], claims: Sequence[Claim], classes: Sequence[int]
) -> None:
    """Set the part of ``total`` that each of the ``members`` deserves; the rest goes to the lowest class first."""
    if min(classes) == max(classes):
        parts = fill(total, [(weight or 1, lower, upper) for weight, lower, upper in claims])
    else:
        parts = fill(
            total,
            [
                (weight, lower, max(lower, min(upper, member.entitled)))
                for (weight, lower, upper), member in zip(claims, members, strict=True)
            ],
        )
        for rank in sorted(set(classes)):
            places = [place for place, one in enumerate(classes) if one == rank]
            room = total - sum(parts) + sum(parts[place] for place in places)
            # A weight of 0 counts as 1 here, because seats that nothing else wants must not stand empty.
            dealt = fill(room, [(claims[place][0] or 1, parts[place], claims[place][2]) for place in places])
            for place, part in zip(places, dealt, strict=True):
                parts[place] = part
    for member, part in zip(members, parts, strict=True):
        member.deserved = part
