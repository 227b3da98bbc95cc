"""The interface of seat sharing, and what both implementations have in common.

A `Sharing` owns the levels of one server and decides at each moment how many seats each may use. `Lending` lends seats
at each dispatch; `Adjusting` sets limits every ten seconds, as Kubernetes does.

A level that can never have a seat rejects every request at once, since waiting can't help.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from apf_middleware.exceptions import ClockError, InvalidValueError
from apf_middleware.fairqueuing.queueset_settings import QueueSetSettings
from apf_middleware.fairqueuing.sharing.hierarchy import NO_HIERARCHY, Hierarchy, Parent
from apf_middleware.fairqueuing.sharing.level import SharedLevel
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.fairqueuing.ticket import Reason, Ticket
from apf_middleware.snapshots import SharingSnapshot

__all__ = ["WITHOUT_SEATS", "Sharing", "Wanted", "raise_time_error"]

Wanted = Mapping[str, tuple[QueueSetSettings, LevelLimits]]
"""The levels that a server is to have, by name."""

WITHOUT_SEATS: Final = QueueSetSettings.without_queues(0)


class Sharing(ABC):
    """How levels share the ``seats`` of a server.

    Every call returns the tickets that it seated, of any level, for the caller to wake. Times never run backwards.

    Before the time ``quick_until``, a request that is alone in a resting, limited level may be seated and released by
    the level itself (see `SharedLevel.seat_alone`), without a call of the sharing. With 0 the sharing must see every
    request.
    """

    __slots__ = ()

    levels: Mapping[str, SharedLevel]
    draining: Sequence[SharedLevel]
    parents: Mapping[str, Parent]
    seats: int
    quick_until: int

    # What happens to tickets

    @abstractmethod
    def arrive(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket`` in at ``level``: afterwards it is seated, waiting, or rejected for a reason."""

    @abstractmethod
    def arrive_parked(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket`` in at ``level``, parked until `unpark`; or it is rejected."""

    @abstractmethod
    def unpark(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket``, which a gate had parked, wait for a seat again."""

    @abstractmethod
    def abandon(
        self, now: int, level: SharedLevel, ticket: Ticket, reason: Reason = Reason.TIME_OUT
    ) -> Sequence[Ticket]:
        """Take ``ticket`` out of its queue unserved; it is rejected for ``reason``.

        A linger that has ended by ``now`` may seat it first: then it is among the tickets returned.
        """

    @abstractmethod
    def release(self, now: int, level: SharedLevel, ticket: Ticket) -> Sequence[Ticket]:
        """End ``ticket``'s run. Its seats come free now, or when its linger ends."""

    # Time

    @abstractmethod
    def tick(self, now: int) -> Sequence[Ticket]:
        """Do what was due by ``now``."""

    @abstractmethod
    def next_event_at(self) -> int | None:
        """Return when `tick` must be called: a linger ends, or limits are adjusted while requests wait."""

    # Levels

    @abstractmethod
    def limit_of(self, level: SharedLevel) -> int:
        """Return how many seats ``level`` may use at this moment."""

    @abstractmethod
    def reconfigure(
        self, now: int, seats: int, wanted: Wanted, hierarchy: Hierarchy = NO_HIERARCHY
    ) -> Sequence[Ticket]:
        """Put other seats, levels and limits in force. No waiting or running request loses its place."""

    @abstractmethod
    def operate(self, now: int, level: SharedLevel, *, held: bool = False, closing: bool = False) -> Sequence[Ticket]:
        """Seat no request of ``level`` from now on if ``held``, and let none arrive there if ``closing``."""

    @abstractmethod
    def forget_drained(self, now: int) -> None:
        """Look for levels that have drained, after requests left their queues by none of these calls."""

    # Looking

    @abstractmethod
    def snapshot(self) -> SharingSnapshot:
        """Return a frozen snapshot of the seats and all levels."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError where sums don't add up, or where a request waits that could be seated."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.seats} seats among {len(self.levels)} levels>"


def raise_time_error(now: object, last: int) -> NoReturn:
    """Raise the error for ``now``, where the last call was at ``last``."""
    if not isinstance(now, int) or isinstance(now, bool):
        raise InvalidValueError("now", now, "it must be an integer of nanoseconds")
    raise ClockError("now", now, f"it must not be before {last}", hint="Use one monotonic clock")
