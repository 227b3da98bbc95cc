"""The times of a fleet: how often members report, for how long grants hold, and when an allocator is replaced."""

from typing import Final

__all__ = ["TURN_NS", "FleetTiming"]

TURN_NS: Final = 100_000_000
"""The time for which a remaining seat stays with a member (see `apf_middleware.fleet.rotation`)."""

_LEAST_MARGIN_NS: Final = 50_000_000


class FleetTiming:
    """The interval and the lease of a fleet, and what follows from them.

    An allocator that doesn't answer for ``patience_ns`` is replaced, while the leases of the members still hold. Redis
    has ``timeout_ns`` for a command, less than the others wait before they begin another epoch, and ``opening_ns`` for
    a new connection, which needs many round trips. For the allocator a lease lasts longer by ``margin_ns``, because
    clocks run at different rates and timers are late.
    """

    __slots__ = ("interval_ns", "lease_ns", "margin_ns", "opening_ns", "patience_ns", "timeout_ns")

    def __init__(self, interval_ns: int, lease_ns: int) -> None:
        self.interval_ns: int = interval_ns
        self.lease_ns: int = lease_ns
        self.patience_ns: int = max(lease_ns // 5, 2 * interval_ns)
        self.timeout_ns: int = self.patience_ns // 2
        self.opening_ns: int = lease_ns // 2
        self.margin_ns: int = max(_LEAST_MARGIN_NS, lease_ns // 50)
