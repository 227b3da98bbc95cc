"""A level that a reload renames or removes serves its requests as fast as if nothing had happened."""

from functools import partial

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission, Controller

SECOND = 10**9

LEVEL = """---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: {name}}}
spec: {{shares: 100, lendablePercent: {lendable}, queuing: {{queues: 1, handSize: 1, queueLengthLimit: 200}}}}
"""


class World:
    """Requests of one second each."""

    def __init__(self, lendable: int, borrowing: str, *levels: str) -> None:
        self.lendable, self.borrowing = lendable, borrowing
        self.now = 0
        self.controller = Controller(self.configuration(*levels), now=lambda: self.now)
        self.ends: dict[Admission, int] = {}
        self.all: list[Admission] = []

    def configuration(self, *levels: str) -> Configuration:
        server = f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: 12, defaults: none, borrowing: {self.borrowing}}}\n"
        return load_text(server + "".join(LEVEL.format(name=name, lendable=self.lendable) for name in levels))

    def reload(self, *levels: str) -> None:
        self.controller.reconfigure(self.configuration(*levels))

    def arrive(self, level: str, number: int) -> list[Admission]:
        placed = Classification("catch-all", level, "flow", 1)
        found = [Admission(self.controller.destination(placed, Work())) for _ in range(number)]
        for admission in found:
            self.controller.arrive(self.now, admission)
        self.all += found
        return found

    def run(self, until: int) -> None:
        while True:
            self.controller.tick()
            for admission in self.all:
                if admission.is_seated:
                    self.ends.setdefault(admission, admission.seated_at + SECOND)
            ends = [(end, place) for place, (one, end) in enumerate(self.ends.items()) if one.is_seated]
            if not ends or min(ends)[0] > until:
                break
            end, place = min(ends)
            self.now = end
            self.controller.release(list(self.ends)[place])
            self.controller.sharing.check()
            used = sum(
                one.queueset.seats_in_use
                for one in [*self.controller.sharing.levels.values(), *self.controller.sharing.draining]
            )
            assert used <= 12, "the server has no more seats than before"
        self.now = until


def served_by(world: World, admissions: list[Admission]) -> int:
    """When the last one had its seat."""
    world.run(100 * SECOND)
    return max(one.seated_at for one in admissions)


@pytest.mark.parametrize("borrowing", ["immediate", "periodic"])
@pytest.mark.parametrize("lendable", [0, 50, 100])
@pytest.mark.parametrize("after", [("a", "b", "renamed"), ("a", "b")], ids=["renamed", "removed"])
def test_a_reload_does_not_delay_waiting_requests(after: tuple[str, ...], lendable: int, borrowing: str) -> None:
    slowest = []
    for levels in (("a", "b", "old"), after):
        world = World(lendable, borrowing, "a", "b", "old")
        others = partial(world.arrive, number=60)
        others("a")
        others("b")
        waiting = world.arrive("old", 25)
        world.run(SECOND // 2)
        world.reload(*levels)
        slowest.append(served_by(world, waiting))

    assert slowest[1] <= slowest[0]


def test_requests_of_the_new_level_do_not_delay_those_of_the_old_one() -> None:
    world = World(0, "immediate", "a", "b", "old")
    world.arrive("a", 60)
    world.arrive("b", 60)
    waiting = world.arrive("old", 25)
    world.run(SECOND // 2)
    world.reload("a", "b", "renamed")
    new = world.arrive("renamed", 25)

    assert served_by(world, waiting) <= 9 * SECOND
    assert all(one.seated_at for one in new)


def test_several_reloads_in_a_row_leave_each_level_its_seats() -> None:
    world = World(0, "immediate", "a", "b", "old")
    world.arrive("a", 60)
    world.arrive("b", 60)
    first = world.arrive("old", 12)
    world.run(SECOND // 2)
    world.reload("a", "b", "second")
    second = world.arrive("second", 12)
    world.reload("a", "b", "third")
    world.reload("a", "b", "fourth")

    assert served_by(world, first) <= 4 * SECOND
    assert max(one.seated_at for one in second) <= 10 * SECOND
    assert not world.controller.sharing.draining
