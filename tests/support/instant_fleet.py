"""An allocator and members with one flow each, whose messages arrive at once."""

from collections.abc import Collection

from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.allocator import Allocator
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.membership import Membership
from apf_middleware.fleet.messages import FlowTable, LevelUsage, Report

__all__ = ["LEASE", "MARGIN", "TURN", "InstantFleet"]

LEASE, MARGIN, TURN = 1000, 100, 50


class InstantFleet:
    """Divide ``seats`` among the members that report; ``most`` is the max of the only level."""

    def __init__(
        self,
        seats: int = 10,
        *,
        floor: int = 0,
        most: int | None = None,
        most_members: int = 0,
        expected: Collection[str] | None = (),
    ) -> None:
        self.now = 0
        self.allocator = Allocator(
            Budget(seats, {"web": SeatDemand(1, 0, 0, most)}, floor=floor),
            epoch=1,
            now=0,
            lease_ns=LEASE,
            margin_ns=MARGIN,
            turn_ns=TURN,
            most_members=most_members,
            expected=expected,
        )
        self.members: dict[str, Membership] = {}

    def report(self, name: str, wanted: int = 0, in_use: int | None = None, *, widest: int = 0) -> Report:
        """Let a member report that one flow of its own wants this number of seats."""
        member = self.members.get(name)
        if member is None:
            member = self.members[name] = Membership(name, lease_ns=LEASE)
            member.join(1)
        used = min(wanted, member.seats(self.now)) if in_use is None else in_use
        flows = FlowTable.of({sum(name.encode()): wanted} if wanted else {})
        report = member.report(self.now, used, {"web": LevelUsage(used, 0, widest, flows)})
        self.allocator.receive(self.now, report)
        return report

    def divide(self, *asking: str) -> dict[str, int]:
        """Send grants, and return the seats in them, and those of the members that ask."""
        grants = self.allocator.divide(self.now, asking)
        for name, grant in grants.items():
            self.members[name].receive(self.now, grant)
        return {name: self.members[name].seats(self.now) for name in {**grants, **dict.fromkeys(asking)}}

    def exchange(self, **wanted: int) -> dict[str, int]:
        """Let members report what they want, and send grants."""
        for name, one in wanted.items():
            self.report(name, one)
        return self.divide(*wanted)

    def seats(self) -> dict[str, int]:
        """Return the seats of each member."""
        return {name: member.seats(self.now) for name, member in self.members.items()}
