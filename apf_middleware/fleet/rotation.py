"""Whole seats for members whose shares are fractions: in turn, so that each has its share on average.

Ten members with a share of 2.5 seats each can't have it at once, and forty members that share ten seats can't even have
one seat each. Each member gets the whole seats of its share; the remaining ones go to the members with the largest
*lag*: the integral over time of its part of these members' seats, in proportion to its share, less its seats. A member
that has such a seat keeps it until another's lag is larger by one `turn`, so that seats don't move at each exchange.
A lag lasts while a share is whole, or nothing: for a level whose parent has a max, too, shares move again and again to
members that have a seat of the parent's max.

**Wide requests.** A request that is wider than its member's seats would wait for ever, and meanwhile its member would
save up seats that others could use. So members where such a request is next have only the seats that they use, and take
turns: in the order of their lags, as many as the seats suffice for get what their requests need. If they don't even
suffice for the first one, members with a smaller lag leave it some of theirs. A turn ends when the request has its
seats, or has given up. Seats that no turn needs go to the members with the largest lags.

While members take turns, the lag of every member counts the seats in use: those that are saved up count for no member.
A member that has got all seats for its turn uses them at once, although its reports say so only later. This goes on for
a few turns after the last wide request has begun, because the others have too few seats until it ends.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from apf_middleware.fairqueuing.sharing.balance import SEAT

__all__ = ["MemberDemand", "Rotation"]

_MOST_TURNS: Final = 8  # the turns of the widest request that bound a lag, and for which seats in use count


class MemberDemand(NamedTuple):
    """What a member wants: ``seats`` altogether, of which some are ``in_use``, and ``widest`` at once for one request.

    ``turns`` counts the wide requests that were next and don't wait any more. The member may use the seats that are
    ``granted``.
    """

    seats: int = 0
    in_use: int = 0
    widest: int = 0
    turns: int = 0
    granted: int = 0


class _Turn:
    """The state of one member: it ``has_turn`` for a wide request, or has waited for one since ``waits_since``."""

    __slots__ = ("ended", "has_turn", "lag", "seats", "share", "used", "waits_since")

    def __init__(self, now: int) -> None:
        self.lag: int = 0  # in seat-nanoseconds times SEAT
        self.share: int = 0
        self.seats: int = 0
        self.used: int = 0  # the seats that count for the lag
        self.waits_since: int = now
        self.has_turn: bool = False
        self.ended: int = 0  # the turns that have ended


class Rotation:
    """The whole seats of each member; a remaining seat stays with a member for at least ``turn_ns``."""

    __slots__ = ("_now", "_turn_ns", "_turns", "_wide_until", "_widest")

    def __init__(self, turn_ns: int, now: int = 0) -> None:
        self._turn_ns = turn_ns
        self._now = now
        self._turns: dict[str, _Turn] = {}
        self._widest = 0  # of the requests that take turns, now or recently
        self._wide_until = now

    @property
    def is_wide(self) -> bool:
        """Whether wide requests wait, or did a short time ago, so that demands are needed."""
        return self._widest > 0

    def lag(self, member: str) -> int:
        """Return the lag of a member."""
        return self._turns[member].lag

    def divide(
        self,
        now: int,
        shares: Mapping[str, int],
        total: int,
        demands: Mapping[str, MemberDemand] | None = None,
        floor: int = 0,
    ) -> dict[str, int]:
        """Return the seats of each member, no more than ``total``, for shares in units of 2**-20 seats.

        No member has less than ``floor``. The ``demands`` are needed if a request is wide, and while this rotation
        `is_wide`. No request of theirs may be wider than ``total`` less the others' floors.
        """
        self._advance(now, shares)
        seats = self._divide_fractions(shares, total)
        _respect_floor(seats, floor, total)
        demands = demands or {}
        widths = self._find_wide(seats, demands)
        self._note_widest(max((demand.widest for demand in demands.values()), default=0))
        if widths:
            self._take_turns(seats, widths, demands, total, floor)
        for member, one in seats.items():
            turn = self._turns[member]
            turn.seats = turn.used = one
            if self._widest:
                demand = demands[member]
                turn.used, turn.share = demand.in_use, min(turn.share, demand.seats * SEAT)
                if turn.has_turn and demand.granted >= widths[member]:
                    turn.used = max(turn.used, widths[member])
        return seats

    def _divide_fractions(self, shares: Mapping[str, int], total: int) -> dict[str, int]:
        seats = {member: share // SEAT for member, share in shares.items()}
        left = min(total, -(-sum(shares.values()) // SEAT)) - sum(seats.values())
        if left > 0:
            fractions = sorted(
                (member for member, share in shares.items() if share % SEAT),
                key=lambda member: (-self._claim(member, shares[member], seats[member]), member),
            )
            for member in fractions[:left]:
                seats[member] += 1
        return seats

    def _claim(self, member: str, share: int, whole: int) -> int:
        """Return the claim of a member to a remaining seat; a member that has one keeps it for a turn."""
        turn = self._turns[member]
        kept = SEAT * self._turn_ns if turn.seats > whole else 0
        return turn.lag + share % SEAT * self._turn_ns + kept

    def _advance(self, now: int, shares: Mapping[str, int]) -> None:
        elapsed, self._now = now - self._now, now
        turns = self._turns
        for member in [one for one in turns if one not in shares]:
            del turns[member]
        self._count_lags(elapsed)
        for member, share in shares.items():
            if member not in turns:
                turns[member] = _Turn(now)
            turns[member].share = share

    def _count_lags(self, elapsed: int) -> None:
        """Let each member's lag grow by its part of what all of them use, less what it uses, for this time."""
        bound = _MOST_TURNS * SEAT * self._turn_ns * max(1, self._widest)
        rotating = [one for one in self._turns.values() if self._widest or one.share % SEAT]
        shared, used = sum(one.share for one in rotating) or 1, SEAT * sum(one.used for one in rotating)
        for turn in rotating:
            lag = turn.lag + (turn.share * used // shared - turn.used * SEAT) * elapsed
            turn.lag = max(-bound, min(bound, lag))

    # Wide requests

    def _note_widest(self, widest: int) -> None:
        if widest > 1:
            self._widest, self._wide_until = widest, self._now + _MOST_TURNS * self._turn_ns
        elif self._now >= self._wide_until:
            self._widest = 0

    def _find_wide(self, seats: Mapping[str, int], demands: Mapping[str, MemberDemand]) -> dict[str, int]:
        """Return the widths of wide requests by member, if one of these has too few ``seats`` for its request."""
        turns = self._turns
        widths = {member: demand.widest for member, demand in demands.items() if demand.widest > 1}
        # A member whose turn has come keeps its seats until the request has them.
        if all(
            width <= seats[one] and (not turns[one].has_turn or width * SEAT <= turns[one].share)
            for one, width in widths.items()
        ):
            widths = {}
        for member, turn in turns.items():
            if member not in widths:
                turn.has_turn, turn.waits_since = False, self._now
            elif turn.ended != demands[member].turns:
                turn.has_turn, turn.waits_since, turn.ended = False, self._now, demands[member].turns
        return widths

    def _take_turns(
        self,
        seats: dict[str, int],
        widths: Mapping[str, int],
        demands: Mapping[str, MemberDemand],
        total: int,
        floor: int,
    ) -> None:
        """Divide the seats between the requests of these ``widths`` and the other members."""
        wanted = {}
        for member, one in seats.items():
            demand = demands[member]
            wanted[member] = one if member in widths else demand.seats
            seats[member] = max(floor, min(one, demand.in_use if member in widths else demand.seats))
            if demand.in_use >= demand.seats:  # no member is compensated for a time in which it wanted nothing
                self._turns[member].lag = min(self._turns[member].lag, 0)
        free, order = total - sum(seats.values()), sorted(seats, key=lambda one: self._order(one, widths))
        givers, spare, is_possible = order.copy(), sum(seats.values()) - floor * len(seats), True
        for member in order:
            spare -= seats[member] - floor
            missing = max(0, widths.get(member, 0) - seats[member])
            is_possible = is_possible and missing <= free + spare
            self._turns[member].has_turn = is_possible and member in widths
            if not self._turns[member].has_turn:
                continue
            while free < missing:  # those with the smallest lags leave it their seats
                given = min(seats[givers[-1]] - floor, missing - free)
                seats[givers[-1]] -= given
                spare -= given
                free += given
                if free < missing:
                    givers.pop()
            seats[member] += missing
            free -= missing
        for member in order:
            given = max(0, min(free, wanted[member] - seats[member]))
            seats[member] += given
            free -= given

    def _order(self, member: str, widths: Collection[str]) -> tuple[bool, int, bool, str]:
        """Return the key by which members are served: those with a turn first, and then by lag.

        The claim of a wide request also grows by a seat for as long as it waits, whatever its member uses for others.
        If members keep each other from using anything, because a parent has a max, too, this ends it.
        """
        turn, is_wide = self._turns[member], member in widths
        waited = self._now - turn.waits_since  # nothing if no wide request of it waits
        return not turn.has_turn, -turn.lag - waited * SEAT, not is_wide, member

    def __repr__(self) -> str:
        return f"<Rotation of {len(self._turns)} members>"


def _respect_floor(seats: dict[str, int], floor: int, total: int) -> None:
    """Raise members to the floor, at the cost of those with the most seats."""
    if not floor:
        return
    for member, one in seats.items():
        seats[member] = max(one, floor)
    excess = max(0, sum(seats.values()) - total)
    for member in sorted(seats, key=lambda one: (-seats[one], one)):
        taken = min(excess, seats[member] - floor)
        seats[member] -= taken
        excess -= taken
