"""The gate that keeps headroom: requests that aren't short wait there, while the seats left for them are taken.

Requests that wait at a gate block no others: short requests of the same queue are seated before them, and afterwards
they come back to their places. The gate isn't told when the level's limit grows, or that short requests don't come any
more. So it is asked again after pauses, and whenever a long request ends.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from apf_middleware.fairqueuing.headroom import Headroom
from apf_middleware.gates.gate import Gate, GateRequest, ParkDecision, Terms

__all__ = ["HeadroomGate"]

_SHORT = "short"
_LONG = "long"


class _SeatLease(NamedTuple):
    began: int
    width: int


class HeadroomGate(Gate):
    """A gate of one level, with its ``headroom``.

    ``expected_ns`` returns how long a request is expected to run, ``seats`` the limit of the level in force, and
    ``clock`` the time.
    """

    kind = "headroom"

    def __init__(
        self,
        name: str,
        headroom: Headroom,
        *,
        expected_ns: Callable[[GateRequest], int | None],
        seats: Callable[[], int],
        clock: Callable[[], int],
    ) -> None:
        # Requests that wait here are bounded by the lengths of their queues, as if there were no gate.
        terms = Terms(status=429, max_parked=2**31, poll_ns=20_000_000, release="seats")
        super().__init__(name, terms)
        self.headroom: Headroom = headroom
        self._expected_ns = expected_ns
        self._seats = seats
        self._clock = clock

    def key(self, request: GateRequest) -> Hashable:
        """Return ``short`` or ``long``; a short request makes sure that seats are kept from now on."""
        if not self.headroom.is_short(self._expected_ns(request)):
            return _LONG
        self.headroom.note_short(self._clock())
        return _SHORT

    def cost(self, request: GateRequest) -> int:
        """Return the seats of the request."""
        return request.seats

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:  # noqa: ARG002
        if key == _LONG:
            if not self.headroom.admits(now, cost, self._seats()):
                return ParkDecision()
            self.headroom.take(cost)
        return _SeatLease(now, cost)

    def release(self, key: Hashable, lease: object) -> None:
        assert isinstance(lease, _SeatLease), "a lease of this gate"
        self.headroom.observe(self._clock() - lease.began, lease.width)
        self.undo(key, lease)

    def undo(self, key: Hashable, lease: object) -> None:
        assert isinstance(lease, _SeatLease), "a lease of this gate"
        if key == _LONG:
            self.headroom.give_back(lease.width)

    def used(self, key: Hashable) -> int | None:  # noqa: ARG002 - there is one number
        return self.headroom.used

    @property
    def limit(self) -> int | None:
        """Return the seats that requests may use which aren't short."""
        seats = self._seats()
        return seats - self.headroom.kept(self._clock(), seats)
