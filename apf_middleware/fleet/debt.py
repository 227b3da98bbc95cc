"""The most seats that a member may be using now, of all that a fleet has or of one level's max.

That is the seats in use as the member last reported, or the limit of any grant that it may still obey, whichever is
more. A grant that lowers the limit reduces the debt only when the member has confirmed it: by a report that names this
grant, or a later one. So messages may be delayed or lost.
"""

from collections import deque
from collections.abc import Mapping

__all__ = ["Debt", "grantable"]


class Debt:
    """What one member may be using: ``owed`` seats; ``seats`` is the limit of its last grant.

    ``owed`` is at least ``floor``.
    """

    __slots__ = ("_confirmed", "_in_use", "_is_renewed", "_unconfirmed", "floor", "owed", "seats")

    def __init__(self, seats: int, in_use: int, floor: int = 0) -> None:
        self.seats: int = seats
        self.floor: int = floor
        self._confirmed = seats
        self._in_use = in_use
        self._unconfirmed: deque[tuple[int, int]] = deque()  # sequence numbers and seats of grants
        self._is_renewed = False  # by the last grant, which has the same seats as one that isn't confirmed
        self.owed: int = self._most_used()

    def _most_used(self) -> int:
        return max(self.floor, self._confirmed, self._in_use, *[seats for _, seats in self._unconfirmed])

    def confirm(self, sequence: int, seats: int, in_use: int, floor: int = 0) -> None:
        """Note a report: the member obeys the grant of this ``sequence``, and its limit is ``seats``."""
        self.floor, self._confirmed, self._in_use = floor, seats, in_use
        while self._unconfirmed and self._unconfirmed[0][0] <= sequence:
            self._unconfirmed.popleft()
        if not self._unconfirmed:
            self.seats = seats  # the member may have given seats back
        self.owed = self._most_used()

    def grant(self, sequence: int, seats: int) -> None:
        """Note that a grant of ``seats`` is sent."""
        self._is_renewed = bool(self._unconfirmed) and self._unconfirmed[-1][1] == seats
        if self._is_renewed:
            self._unconfirmed[-1] = (sequence, seats)  # the same limit again, for a new lease
        else:
            self._unconfirmed.append((sequence, seats))
        self.seats = seats
        self.owed = self._most_used()

    def retract(self, sequence: int) -> None:
        """Note that the last grant, of this ``sequence``, has not been sent, and never will be."""
        if self._unconfirmed and self._unconfirmed[-1] == (sequence, self.seats) and not self._is_renewed:
            self._unconfirmed.pop()
            self.seats = self._unconfirmed[-1][1] if self._unconfirmed else self._confirmed
            self.owed = self._most_used()

    def __repr__(self) -> str:
        return f"<Debt of {self.owed} seats, {self.seats} granted>"


def grantable(targets: Mapping[str, int], debts: Mapping[str, Debt], free: int) -> dict[str, int]:
    """Return the seats that members can be granted now: decreases at once, increases as far as seats are ``free``.

    If ``free`` is negative, requests have outlived a lease, or there are fewer seats than before.
    """
    granted = {name: min(target, debts[name].seats) for name, target in targets.items()}
    if free < 0:
        return granted
    below = [name for name, target in targets.items() if target > debts[name].seats]
    for name in sorted(below, key=lambda one: (debts[one].seats / targets[one], one)):
        debt = debts[name]
        # seats within the debt are counted already, for example those of a decrease that isn't confirmed yet
        within = max(0, debt.owed - debt.seats)
        raised = min(targets[name] - debt.seats, within + free)
        free -= max(0, raised - within)
        granted[name] = debt.seats + raised
    return granted
