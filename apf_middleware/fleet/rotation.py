"""Whole seats for members whose shares are fractions: in turn, so that each has its share on average.

Ten members with a share of 2.5 seats each can't have it at once, and forty members that share ten seats can't even have
one seat each. Each member gets the whole seats of its share; the remaining ones go to the members with the largest
*lag*, the integral of the share less the seats over time. A member that has such a seat keeps it until another's lag is
larger by one `turn`, so that seats don't move at each exchange.

A request that is wider than its member's seats would wait for ever. The members with such requests take turns, too: the
one that has waited longest gets as many seats as its request needs, at the cost of the others. Its lag then falls, so
it gets fewer seats afterwards.
"""

from collections.abc import Mapping
from typing import Final

from apf_middleware.fairqueuing.sharing.balance import SEAT

__all__ = ["Rotation"]

_MOST_TURNS: Final = 8  # a lag is bounded by this number of turns, whatever has happened before


class _Turn:
    """The state of one member."""

    __slots__ = ("lag", "seats", "share", "wide_since")

    def __init__(self) -> None:
        self.lag: int = 0  # in seat-nanoseconds times SEAT
        self.seats: int = 0
        self.share: int = 0
        self.wide_since: int | None = None


class Rotation:
    """The whole seats of each member; a remaining seat stays with a member for at least ``turn_ns``."""

    __slots__ = ("_now", "_turn_ns", "_turns")

    def __init__(self, turn_ns: int, now: int = 0) -> None:
        self._turn_ns = turn_ns
        self._now = now
        self._turns: dict[str, _Turn] = {}

    def divide(
        self, now: int, shares: Mapping[str, int], total: int, widest: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Return the seats of each member, no more than ``total``, for shares in units of 2**-20 seats.

        ``widest`` is the width of the widest request that waits at each member.
        """
        self._advance(now, shares)
        turns = self._turns
        seats = {member: share // SEAT for member, share in shares.items()}
        left = min(total, -(-sum(shares.values()) // SEAT)) - sum(seats.values())
        if left > 0:
            fractions = sorted(
                (member for member, share in shares.items() if share % SEAT),
                key=lambda member: (-self._claim(member, shares[member], seats[member]), member),
            )
            for member in fractions[:left]:
                seats[member] += 1
        self._raise_widest(now, seats, shares, widest or {}, total)
        for member, one in seats.items():
            turns[member].seats = one
        return seats

    def _claim(self, member: str, share: int, whole: int) -> int:
        """Return the claim of a member to a remaining seat; a member that has one keeps it for a turn."""
        turn = self._turns[member]
        kept = SEAT * self._turn_ns if turn.seats > whole else 0
        return turn.lag + share % SEAT * self._turn_ns + kept

    def _advance(self, now: int, shares: Mapping[str, int]) -> None:
        elapsed, self._now = now - self._now, now
        bound = _MOST_TURNS * SEAT * self._turn_ns
        for member in [one for one in self._turns if one not in shares]:
            del self._turns[member]
        for member, share in shares.items():
            turn = self._turns.get(member)
            if turn is None:
                turn = self._turns[member] = _Turn()
            elif share % SEAT or turn.wide_since is not None:
                turn.lag = max(-bound, min(bound, turn.lag + (turn.share - turn.seats * SEAT) * elapsed))
            else:
                turn.lag = 0  # it has its whole share
            turn.share = share

    def _raise_widest(
        self, now: int, seats: dict[str, int], shares: Mapping[str, int], widest: Mapping[str, int], total: int
    ) -> None:
        """Give the seats of one wide request to the member where such a request has waited longest."""
        first = self._first_wide(now, seats, shares, {name: min(one, total) for name, one in widest.items()})
        if first is None:
            return
        missing = min(widest.get(first, 0), total) - seats[first]
        free = total - sum(seats.values())
        for member in sorted(seats, key=lambda one: (-seats[one], one)):
            if missing <= free:
                break
            if member != first:
                given = min(seats[member], missing - free)
                seats[member] -= given
                free += given
        seats[first] += max(0, min(missing, free))

    def _first_wide(
        self, now: int, seats: Mapping[str, int], shares: Mapping[str, int], widest: Mapping[str, int]
    ) -> str | None:
        """Return the member where a request has waited longest for more seats than the member has, after one turn."""
        first, since = None, now - self._turn_ns + 1
        for member, turn in self._turns.items():
            width = widest.get(member, 0)
            # a member whose turn has come keeps its seats until the request has them
            if width <= seats[member] and (turn.wide_since is None or width * SEAT <= shares[member]):
                turn.wide_since = None
            elif turn.wide_since is None:
                turn.wide_since = now
            if turn.wide_since is not None and turn.wide_since < since:
                first, since = member, turn.wide_since
        return first

    def __repr__(self) -> str:
        return f"<Rotation of {len(self._turns)} members>"
