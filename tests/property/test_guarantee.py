"""The guarantee names the queue that its plain twin names, whatever happens and however it is asked."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from apf_middleware.fairqueuing import DISCIPLINES, Discipline, QueueSet, QueueSetSettings, Work
from apf_middleware.fairqueuing.guarantee import Guarantee
from apf_middleware.fairqueuing.ticket import Queue
from tests.support.examples import seeds
from tests.support.plain_guarantee import PlainGuarantee
from tests.support.recorded_queueset import MS, RecordedQueueSet, Step


class Compared(Guarantee):
    """A guarantee that compares each of its answers with that of its plain twin."""

    def __init__(self, queueset: QueueSet) -> None:
        super().__init__(queueset.ceiling)
        self.plain = PlainGuarantee(queueset)
        self.named = self.had_to = 0

    def wait(self, now: int, queue: Queue, width: int, queues: Iterable[Queue]) -> None:
        super().wait(now, queue, width, queues)
        self.plain.wait(queue)

    def leave(self, now: int, queue: Queue, width: int) -> None:
        super().leave(now, queue, width)
        self.plain.leave(queue)

    def dispatch(self, now: int, queue: Queue, width: int, cut: int) -> None:
        super().dispatch(now, queue, width, cut)
        self.plain.leave(queue)

    def vacate(self, now: int, queue: Queue, width: int, held_ns: int) -> None:
        super().vacate(now, queue, width, held_ns)
        self.plain.vacate(width, held_ns)

    def overdue(self, now: int) -> Queue | None:
        is_new = not self._is_decided
        found = super().overdue(now)
        if is_new:  # an answer holds until something else happens than that time passes
            may, must = self.plain.verdict()
            assert found is None or found in may, f"{found!r} of {may}"
            assert max(must.values(), default=0) <= (may[found] if found else 0), f"{found!r}, but {must}"
            self.named += found is not None
            self.had_to += bool(must)
        return found


def watched(discipline: type[Discipline[Any]], twins: list[PlainGuarantee]) -> Callable[[int, int], Discipline[Any]]:
    """Return a maker of the ``discipline`` that lets the time of the ``twins`` pass when its own does."""

    class Watched(discipline):  # type: ignore[valid-type, misc]
        time = 0

        def advance(self, elapsed_ns: int, demand: int) -> None:
            super().advance(elapsed_ns, demand)
            self.time += elapsed_ns
            for twin in twins:
                twin.advance(self.time)

    return Watched


@pytest.mark.parametrize("seed", [*seeds(8), 131, 241])
@pytest.mark.parametrize("discipline", DISCIPLINES.values(), ids=list(DISCIPLINES))
def test_the_guarantee_names_the_queue_with_the_largest_shortfall(discipline: type[Discipline[Any]], seed: int) -> None:
    """Tides, as in the worlds of the disciplines, with widths, lingers, parked requests, and levels that change."""
    chance = random.Random(f"guarantee {seed}")
    queues, is_wide = chance.randint(2, 8), chance.random() < 0.5
    backfill = chance.choice([0, 0, 2])

    def level() -> QueueSetSettings:
        return QueueSetSettings(chance.randint(1, 8), queues, 1, queue_length_limit=30, backfill=backfill)

    twins: list[PlainGuarantee] = []
    side = RecordedQueueSet(watched(discipline, twins), level())
    side.queueset.guarantee = compared = Compared(side.queueset)
    twins.append(compared.plain)
    stride, tide = MS, [1] * 6
    for place in range(400):
        if place % 40 == 0:
            stride = 10 ** chance.randint(3, 9)
            tide = chance.choice([[6, 3, 1, 1, 1, 1], [3, 6, 1, 1, 1, 1], [3, 3, 3, 2, 2, 2], [5, 5, 0, 0, 0, 0]])
        what = chance.choices(["arrive", "release", "abandon", "tick", "park", "unpark"], tide)[0]
        work = Work()
        if is_wide:
            seats, final = chance.choice([1, 1, 2, 5]), chance.choice([0, 0, 3])
            work = Work(seats, final, chance.choice([0, 0, MS, 5 * stride]))
        after = chance.choice([0, 1, stride // 7, stride, chance.randrange(stride)])
        step = Step(after, what, chance.randrange(40), work)
        if place % 60 == 59:
            step = Step(after, "reconfigure", settings=level())
        side.take(step)
        side.queueset.check()
