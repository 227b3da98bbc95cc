"""Meters of the processes that share a backend: each one's requests, and the seats that all use at the same time."""

from apf_middleware.runtime import Admission
from apf_middleware.simulation.fleet.fleet import SimulatedFleet
from apf_middleware.simulation.meters import LevelMeter, milliseconds
from apf_middleware.simulation.results import FleetResult, MemberResult

__all__ = ["FleetMeters"]

_SECOND = 10**9


class FleetMeters:
    """The meters of ``count`` members, which may together use ``budget`` seats.

    ``in_use`` are the seats in use now, at levels that aren't exempt, and ``most_in_use`` the most at any moment.
    ``excess_ns`` are the seat-nanoseconds beyond the budget.
    """

    def __init__(self, count: int, budget: int) -> None:
        self.members: list[LevelMeter] = [LevelMeter() for _ in range(count)]
        self.budget: int = budget
        self.in_use: int = 0
        self.most_in_use: int = 0
        self.excess_ns: int = 0
        self._changed_at = 0

    def begin(self, now: int) -> None:
        """Begin to count: the warm-up is over."""
        for member in self.members:
            member.begin(now)

    def change(self, now: int, member: int, admission: Admission, by: int) -> None:
        """Add ``by`` to the seats in use at this member, by the request of ``admission``."""
        if admission.destination.runtime.level.exempt:
            return
        self.members[member].change(now, by)
        excess = self.in_use - self.budget
        if excess > 0:
            self.excess_ns += excess * (now - self._changed_at)
        self._changed_at = now
        self.in_use += by
        self.most_in_use = max(self.most_in_use, self.in_use)

    def end(self, now: int) -> None:
        """Count no seats from now on; the tries that count may still end."""
        for member in self.members:
            member.close_window(now, 1)

    def finish(self, seconds: float, fleet: SimulatedFleet | None) -> FleetResult:
        """Return all that was measured; ``seconds`` is the counted time."""
        return FleetResult(
            budget=self.budget,
            most_in_use=self.most_in_use,
            excess_seat_s=round(self.excess_ns / _SECOND, 6),
            epochs=0 if fleet is None else fleet.epochs,
            messages=0 if fleet is None else fleet.network.sent,
            lost=0 if fleet is None else fleet.network.lost,
            members=tuple(
                MemberResult(
                    number=number,
                    seats=round(member.total_ns / (seconds * _SECOND), 3),
                    dispatched=member.dispatched,
                    rejected=member.rejected,
                    wait_p50_ms=milliseconds(member.waits.quantile(0.5)),
                    wait_p99_ms=milliseconds(member.waits.quantile(0.99)),
                )
                for number, member in enumerate(self.members)
            ),
        )

    def __repr__(self) -> str:
        return f"<FleetMeters: {self.in_use} of {self.budget} seats in use at {len(self.members)} members>"
