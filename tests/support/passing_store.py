"""A store between the members of a fleet in virtual time and its allocators: it passes seats on by standing grants.

It works as Redis does: each step is one step for all, but what it answers may be late. What reports have brought is
taken by the allocator with the answer to its last division.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from apf_middleware.fleet.messages import Grant, Report
from apf_middleware.fleet.standing_grant import StandingGrant
from tests.support.fleet_world import MS, SimulatedAllocator

if TYPE_CHECKING:
    from tests.support.fleet_world import FleetWorld

__all__ = ["PassingAllocator", "PassingStore"]

_TAKEN: Final = -1


class PassingStore:
    """The store of one epoch; the ``round`` is the number of the last division, or says that a seat has been passed."""

    def __init__(self, world: "FleetWorld") -> None:
        self.world = world
        self.standing: StandingGrant | None = None
        self.round = 0
        self.reports: list[Report | int] = []  # and the rounds in which a seat was passed
        self.passed = self.refused = 0

    def take_report(self, report: Report) -> None:
        self.reports.append(report)
        standing = self.standing
        if standing is not None and standing.is_due(report):
            self.reports.append(self.round)
            self.standing, self.round = None, _TAKEN
            self.passed += 1
            self.world.send(self.world.deliver_grant, standing.grant, standing.member)

    def take_grants(self, known: int, begun: int, grants: dict[str, Grant], standing: StandingGrant | None) -> bool:
        """Send grants, and return True; return False if a seat has been passed that the allocator doesn't know of."""
        if self.round != known:
            self.refused += 1
            return False
        self.round, self.standing = begun, standing
        for name, grant in grants.items():
            self.world.send(self.world.deliver_grant, grant, name)
        return True


class PassingAllocator(SimulatedAllocator):
    """The allocator of one epoch; it has no more than one division on its way to the `PassingStore`."""

    def __init__(self, world: "FleetWorld", expected: Iterable[str] | None) -> None:
        super().__init__(world, expected)
        self.store = PassingStore(world)
        self.known = self.begun = 0
        self.is_refused = False

    @property
    def now(self) -> int:
        return self.clock.at(self.world.now)

    def receive(self, report: Report) -> None:
        """Let the store take a report."""
        if self.pure.epoch == self.world.epoch:
            self.store.take_report(report)
            if not self.is_due:
                self.is_due = True
                self.world.at(self.delay(), self.look)

    def delay(self) -> int:
        return round(self.world.random.choice((0.1, 1, 30)) * self.world.random.random() * MS)

    def look(self) -> None:
        """Take the reports that wait in the store."""
        reports, self.store.reports = self.store.reports, []
        self.world.at(self.delay(), self.take, reports)

    def take(self, reports: list[Report | int]) -> None:
        if self.is_paused:
            self.world.hold(self, self.take, reports)
            return
        for one in reports:
            if isinstance(one, Report):
                self.pure.receive(self.now, one)
                self.asking.add(one.member)
            elif one == self.known:
                self.known = _TAKEN
                self.pure.take(self.now)
        self.divide()

    def divide(self) -> None:
        if self.is_refused:
            self.pure.take(self.now)
        if self.world.knows_members and self.pure.is_learning(self.now):
            self.pure.expect(list(self.world.members))
        asking, self.asking = self.asking, set()
        grants = self.pure.divide(self.now, asking)
        standing = self.pure.stand(self.now)
        self.check(self.now)
        self.begun += 1
        self.world.at(self.delay(), self.exchange, grants, standing)

    def exchange(self, grants: dict[str, Grant], standing: StandingGrant | None) -> None:
        """Let the store take the grants, if the epoch is the latest one, and take the next reports from it."""
        self.has_ended = self.has_ended or (self.pure.epoch != self.world.epoch and self.world.allocators_look)
        if not self.has_ended:
            is_taken = self.store.take_grants(self.known, self.begun, grants, standing)
            reports, self.store.reports = self.store.reports, []
            if is_taken:
                self.world.at(self.delay(), self.go_on, standing, reports)
            else:
                self.world.at(self.delay(), self.note_refusal, grants, reports)

    def go_on(self, standing: StandingGrant | None, reports: list[Report | int]) -> None:
        if self.is_paused:
            self.world.hold(self, self.go_on, standing, reports)
            return
        self.pure.standing, self.known, self.is_refused = standing, self.begun, False
        self.is_due = bool(reports or self.store.reports)
        if reports:
            self.take(reports)
        elif self.is_due:
            self.look()

    def note_refusal(self, grants: dict[str, Grant], reports: list[Report | int]) -> None:
        if self.is_paused:
            self.world.hold(self, self.note_refusal, grants, reports)
            return
        self.known, self.is_refused = _TAKEN, True
        self.pure.retract(self.now, grants.keys())
        self.asking |= grants.keys()
        self.take(reports)
