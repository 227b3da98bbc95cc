"""The interface of seat sharing, and definitions that both implementations use.

A `Sharing` owns the levels of one server, and decides at each moment how many seats each of them may use. `Lending`
lends seats at each dispatch; `Adjusting` sets limits every ten seconds, as Kubernetes does.

A level with a max of 0 rejects every request at once, because waiting can't help.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from apf_middleware.fairqueuing.queueset_settings import QueueSetSettings
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY, Hierarchy, Parent
from apf_middleware.fairqueuing.sharing.level import SharedLevel
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.fairqueuing.ticket import Reason, Ticket
from apf_middleware.snapshots import SharingSnapshot

__all__ = ["WITHOUT_SEATS", "Sharing", "Wanted"]

Wanted = Mapping[str, tuple[QueueSetSettings, LevelLimits]]
"""The levels that a server is to have, by name."""

WITHOUT_SEATS: Final = QueueSetSettings.without_queues(0)


class Sharing(ABC):
    """The levels of a server, which share its ``seats``.

    Calls that can seat tickets return those that they seated, of any level, and the caller wakes them. ``now`` must
    never decrease.

    Before the time ``alone_until``, a request that is alone in a limited level may be seated and released by the level
    itself (see `SharedLevel.seat_alone`), without a call of the sharing. If it is 0, every request must be passed to
    the sharing.
    """

    __slots__ = ("alone_until", "draining", "levels", "parents", "seats")

    # A subclass sets these attributes by methods of this class, because what it assigns itself is declared twice.
    def __init__(
        self,
        seats: int,
        levels: Mapping[str, SharedLevel],
        draining: Sequence[SharedLevel],
        parents: Mapping[str, Parent],
        alone_until: int,
    ) -> None:
        self.seats: int = seats
        self.levels: Mapping[str, SharedLevel] = levels
        self.draining: Sequence[SharedLevel] = draining
        self.parents: Mapping[str, Parent] = parents
        self.alone_until: int = alone_until

    def _resize(self, seats: int) -> None:
        self.seats = seats

    def _let_seat_alone(self, until: int) -> None:
        self.alone_until = until

    # The life of a ticket

    @abstractmethod
    def arrive(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Seat or queue ``ticket`` at ``level``, or reject it with a reason."""

    @abstractmethod
    def arrive_parked(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Park ``ticket``, which arrives at ``level``, until `unpark`; reject it if its queue is full."""

    @abstractmethod
    def unpark(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket``, which a gate had parked, wait for a seat again."""

    @abstractmethod
    def abandon(
        self, now: int, level: SharedLevel, ticket: Ticket, reason: Reason = Reason.TIME_OUT
    ) -> Sequence[Ticket]:
        """Take ``ticket`` out of its queue unserved; it is rejected for ``reason``.

        If enough seats have become free for it by ``now``, it is seated instead, and is among the returned tickets.
        """

    @abstractmethod
    def release(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """End the run of ``ticket``. Its seats become free now, or when its linger ends."""

    # Time

    @abstractmethod
    def tick(self, now: int) -> Sequence[Ticket]:
        """End the lingers and make the adjustments that are due by ``now``."""

    @abstractmethod
    def next_event_at(self) -> int | None:
        """Return the time at which `tick` must be called: for the end of a linger, or an adjustment of limits."""

    # Levels

    @abstractmethod
    def limit_of(self, level: SharedLevel) -> int:
        """Return how many seats ``level`` may use at this moment."""

    @abstractmethod
    def reconfigure(
        self, now: int, seats: int, wanted: Wanted, hierarchy: Hierarchy = NO_HIERARCHY
    ) -> Sequence[Ticket]:
        """Apply a new number of seats, new levels and new limits. Waiting and running requests keep their places."""

    @abstractmethod
    def operate(self, now: int, level: SharedLevel, *, held: bool = False, closing: bool = False) -> Sequence[Ticket]:
        """Set whether ``level`` is ``held`` (it seats no request) and ``closing`` (it rejects new requests)."""

    @abstractmethod
    def cap(self, now: int, caps: Mapping[str, int], pause_ns: int = 0) -> Sequence[Ticket]:
        """Let each level in ``caps`` use at most that many seats, or its min if that is more; the others have no caps.

        A cap takes no seats from running requests. It changes what this level gets, and never what another level is
        promised. Seats of requests that arrive at these levels from now on stay taken for ``pause_ns`` after their end.
        """

    @abstractmethod
    def restrict(self, now: int, grant: SeatGrant | None) -> Sequence[Ticket]:
        """Use at most the seats of ``grant`` from now on; None makes all seats available again.

        Requests that run keep their seats. While they use more than the grant, no other request begins. If the lease
        has ended already, only the fallback seats are available.
        """

    @abstractmethod
    def forget_drained(self, now: int) -> Sequence[Ticket]:
        """Forget levels that have drained because requests left their queues without one of the calls above.

        Return the tickets that were seated, because the other levels may have more seats now.
        """

    # Looking

    @abstractmethod
    def snapshot(self) -> SharingSnapshot:
        """Return a frozen snapshot of the seats and all levels."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError if sums are inconsistent, or if a request waits that could be seated."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.seats} seats among {len(self.levels)} levels>"
