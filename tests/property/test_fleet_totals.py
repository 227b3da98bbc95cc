"""A fleet keeps to its number of seats while that moves; only requests that had seats of a larger one exceed it.

The total of each allocator wanders at random. At each moment the limits in force and the seats in use of all members
add up to no more than the largest total of the last lease, or than a moment before.
"""

import random
from collections import deque
from collections.abc import Iterable

import pytest

from apf_middleware.fleet.budget import Budget, SeatRange
from apf_middleware.fleet.messages import Report
from apf_middleware.fleet.total import FleetTotal
from tests.support.examples import seeds
from tests.support.fleet_world import MS, SECOND, FleetWorld, Network

pytestmark = pytest.mark.timeout(600)

BOUNDS = SeatRange(4, 40)


class WanderingTotal(FleetTotal):
    """A total that becomes another one from time to time, whatever is reported."""

    def __init__(self, world: "MovingWorld", seats: int) -> None:
        super().__init__(BOUNDS, seats, 0)
        self._world = world
        self.is_fixed = False

    def decide(self, now: int, budget: Budget, reports: Iterable[Report]) -> int:
        assert budget.bounds == BOUNDS
        assert all(report.seats >= 0 for report in reports)
        assert now >= 0
        if not self.is_fixed and self._world.now - self._world.changed_at > 1_500 * MS:
            self._world.changed_at = self._world.now
            self.controller.limit = self._world.random.choice((4, 5, 8, 12, 20, 30, 40))
        return self.seats


class MovingWorld(FleetWorld):
    """A fleet with a total that moves; ``allowed`` are the seats that may be in use now."""

    lease_ns = 2 * SECOND
    durations_ms = (20, 150)

    def __init__(self, seed: int, network: Network, *, floor: int) -> None:
        self.totals: deque[tuple[int, int]] = deque([(0, 20)])
        self.allowed = 20
        self.has_moved = self.changed_at = 0
        super().__init__(20, seed, network, floor=floor, knows_members=True)

    def elect(self) -> None:
        super().elect()
        assert self.allocator is not None
        allocator = self.allocator.pure
        allocator.budget = Budget(self.totals[-1][1], self.claims, bounds=BOUNDS, floor=self.floor)
        allocator.total = WanderingTotal(self, self.totals[-1][1])

    def check(self) -> None:
        for allocator in self.allocators.values():
            total = allocator.pure.total
            assert total is not None
            if (self.now, total.seats) != self.totals[-1]:
                self.has_moved += total.seats != self.totals[-1][1]
                self.totals.append((self.now, total.seats))
        while self.totals[0][0] < self.now - self.lease_ns - self.margin_ns:
            self.totals.popleft()
        used = sum(member.most_used for member in self.members.values())
        largest = max(seats for _, seats in self.totals)
        assert used <= max(largest, self.allowed), f"{used} seats at {self.now}; {largest} of the last lease"
        self.allowed = used


def present_excess(world: MovingWorld) -> int:
    """Return by how much the limits and the seats in use exceed the present total."""
    assert world.allocator is not None
    assert world.allocator.pure.total is not None
    return sum(member.most_used for member in world.members.values()) - world.allocator.pure.total.seats


@pytest.mark.parametrize("seed", seeds(10))
def test_the_total_holds_while_it_moves(seed: int) -> None:
    dice = random.Random(seed)
    world = MovingWorld(seed, Network((0.1, 60.0), lost=dice.choice((0, 0.1))), floor=0)
    for number in range(dice.randint(1, 5)):
        world.add(f"m{number}", {flow: dice.choice((1, 5, 50)) for flow in range(dice.randint(1, 4))})
    for _ in range(40):
        world.run(world.now + 300 * MS)
        if dice.random() < 0.15:
            world.crash_allocator(dice.choice((0, 500 * MS)))
        if dice.random() < 0.2 and world.members:
            world.crash(dice.choice(list(world.members.values())))
            world.add(f"n{world.now}", {7: 50})
    assert world.begun
    assert world.has_moved


@pytest.mark.parametrize("seed", seeds(8))
def test_a_smaller_total_is_reached_as_soon_as_requests_have_ended(seed: int) -> None:
    world = MovingWorld(seed, Network(), floor=0)
    for number in range(4):
        world.add(f"m{number}", {number: 50})
    world.run(2 * SECOND)
    assert world.allocator is not None
    total = world.allocator.pure.total
    assert isinstance(total, WanderingTotal)
    total.is_fixed = True
    for seats in (40, 6, 30, 4):
        total.controller.limit = seats
        world.run(world.now + 200 * MS + 2 * world.interval_ns)
        assert present_excess(world) <= 0
        used = sum(member.in_use for member in world.members.values())
        assert used >= seats - 2, "nearly all seats are in use, because everybody waits"
