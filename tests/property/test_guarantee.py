"""The guarantee names the queue that its plain twin names, whatever happens and however it is asked."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from apf_middleware.fairqueuing import DISCIPLINES, Discipline, QueueSet, QueueSetSettings, Ticket, Work
from apf_middleware.fairqueuing.guarantee import Guarantee
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.delegating_discipline import DelegatingDiscipline
from tests.support.examples import seeds
from tests.support.plain_guarantee import PlainGuarantee
from tests.support.recorded_queueset import MS, RecordedQueueSet, Step


class Comparison:
    """Compares each new answer of a queue set's guarantee with that of its plain twin; an answer is asked for by turns.

    An answer holds until something else happens than that time passes. The gatekeeper of a queue set is asked about
    each ticket whose turn it is, right after the guarantee.
    """

    def __init__(self, queueset: QueueSet) -> None:
        self.queueset = queueset
        self.guarantee = queueset.guarantee = Guarantee(queueset.ceiling)
        queueset.gatekeeper = self
        discipline = queueset.discipline
        assert isinstance(discipline, Watched)
        discipline.comparison = self
        self.plain = PlainGuarantee(queueset)
        self.is_new = True
        self.within = 1

    def allow_weights(self) -> None:
        """Of queues with different weights the guarantee names one that lacks half as much beyond the threshold."""
        self.within = 2
        self.plain.rounding = 10**8  # a tenth of a request that takes a microsecond

    def compare(self, now: int) -> None:
        found = self.guarantee.overdue(now, self.queueset.concurrency)
        if self.is_new:
            self.is_new = False
            may, must = self.plain.verdict()
            assert found is None or found in may, f"{found!r} of {may}"
            threshold = self.plain.threshold
            beyond = (may[found] - threshold if found else 0) * self.within + threshold
            most = max(must.values(), default=0)
            assert most <= beyond or (self.within > 1 and most > 5 * threshold), f"{found!r}, but {must}"

    def compare_shortfalls(self, now: int) -> None:
        """Compare the shortfall of each queue with the twin's; rarely, because a look updates the meter."""
        guarantee, plain = self.guarantee, self.plain
        if not guarantee.is_tracking:
            return
        if now != guarantee._now:
            guarantee._pass_time(now)
        plain.advance(now)
        for queue, expected in plain.shortfalls.items():
            meter = queue.service_meter
            assert meter is not None
            lacking = guarantee.r - guarantee._note(queue, meter) + guarantee._delay(meter)
            weight = queue.weight if guarantee._is_weighted else 1
            found = lacking * weight / 2**guarantee._rate_bits
            assert found == pytest.approx(float(expected) / 2**20, abs=100), f"what {queue!r} lacks, in nanoseconds"

    def admits(self, now: int, ticket: Ticket) -> bool:  # noqa: ARG002 - as every gatekeeper
        self.compare(now)
        return True

    def bars(self, now: int, ticket: Ticket) -> bool:  # noqa: ARG002 - as every gatekeeper
        self.compare(now)
        return False

    def is_parked(self, ticket: Ticket) -> bool:  # noqa: ARG002
        return False


class Watched(DelegatingDiscipline):
    """Lets the plain twin know what happens."""

    comparison: Comparison | None = None
    time = 0

    def _twin(self) -> PlainGuarantee | None:
        """Return the twin, whose answer may change now."""
        if self.comparison is None:
            return None
        self.comparison.is_new = True
        return self.comparison.plain

    def advance(self, elapsed_ns: int, demand: int) -> None:
        super().advance(elapsed_ns, demand)
        self.time += elapsed_ns
        if self.comparison is not None:
            self.comparison.plain.advance(self.time)

    def arrive(self, queue: Queue, ticket: Ticket) -> None:
        super().arrive(queue, ticket)
        if twin := self._twin():
            twin.wait(queue)

    def leave(self, queue: Queue, ticket: Ticket, *, was_oldest: bool) -> None:
        super().leave(queue, ticket, was_oldest=was_oldest)
        if twin := self._twin():
            twin.leave(queue)

    def dispatch(self, queue: Queue, ticket: Ticket) -> None:
        super().dispatch(queue, ticket)
        if twin := self._twin():
            twin.leave(queue)

    def reweigh(self, queue: Queue, weight: int) -> None:
        super().reweigh(queue, weight)
        queue.weight = weight
        if twin := self._twin():
            twin.reweigh(queue)

    def settle(self, queue: Queue, ticket: Ticket, duration_ns: int) -> None:
        super().settle(queue, ticket, duration_ns)
        if not ticket.work.linger_ns:
            self._free(ticket)

    def vacate(self, queue: Queue, ticket: Ticket) -> None:
        super().vacate(queue, ticket)
        self._free(ticket)

    def _free(self, ticket: Ticket) -> None:
        if twin := self._twin():
            twin.vacate(ticket.width, self.time - ticket.seated_at)


def watched(discipline: type[Discipline[Any]]) -> Callable[[int, int], Discipline[Any]]:
    class Own(Watched, of=discipline):
        pass

    return Own


@pytest.mark.parametrize("seed", [*seeds(5), 131, 241])
@pytest.mark.parametrize("discipline", DISCIPLINES.values(), ids=list(DISCIPLINES))
def test_the_guarantee_names_the_queue_with_the_largest_shortfall(discipline: type[Discipline[Any]], seed: int) -> None:
    """Tides, as in the worlds of the disciplines, with widths, lingers, parked requests, and levels that change."""
    play(discipline, random.Random(f"guarantee {seed}"), [WEIGHT_ONE], changing=False)


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("discipline", DISCIPLINES.values(), ids=list(DISCIPLINES))
def test_with_weights_it_names_one_of_those_that_lack_most(discipline: type[Discipline[Any]], seed: int) -> None:
    heavy = [WEIGHT_ONE // 50, WEIGHT_ONE // 2, WEIGHT_ONE, 3 * WEIGHT_ONE, 9 * WEIGHT_ONE]
    play(discipline, random.Random(f"weighted {seed}"), heavy, changing=bool(seed % 2))


@pytest.mark.parametrize("discipline", DISCIPLINES.values(), ids=list(DISCIPLINES))
def test_the_log_of_rises_may_be_cleared(discipline: type[Discipline[Any]]) -> None:
    """That happens after some 70 rises, more than other worlds have."""
    play(discipline, random.Random("rises 6"), [WEIGHT_ONE], changing=False, steps=2500)


def play(
    discipline: type[Discipline[Any]],
    chance: random.Random,
    heavy: Sequence[int],
    *,
    changing: bool,
    steps: int = 400,
) -> None:
    queues, is_wide = chance.randint(2, 8), chance.random() < 0.5
    backfill = chance.choice([0, 0, 2])

    def level() -> QueueSetSettings:
        return QueueSetSettings(chance.randint(1, 8), queues, 1, queue_length_limit=30, backfill=backfill)

    side = RecordedQueueSet(watched(discipline), level())
    comparison = Comparison(side.queueset)
    if len(heavy) > 1:
        comparison.allow_weights()
    stride, tide = MS, [1] * 6
    for place in range(steps):
        if place % 40 == 0:
            stride = 10 ** chance.randint(3, 9)
            tide = chance.choice([[6, 3, 1, 1, 1, 1], [3, 6, 1, 1, 1, 1], [3, 3, 3, 2, 2, 2], [5, 5, 0, 0, 0, 0]])
        what = chance.choices(["arrive", "release", "abandon", "tick", "park", "unpark"], tide)[0]
        work = Work()
        if is_wide:
            seats, final = chance.choice([1, 1, 2, 5]), chance.choice([0, 0, 3])
            work = Work(seats, final, chance.choice([0, 0, MS, 5 * stride]))
        after = chance.choice([0, 1, stride // 7, stride, chance.randrange(stride)])
        flow = chance.randrange(40)
        weight = chance.choice(heavy) if changing else heavy[flow % len(heavy)]
        step = Step(after, what, flow, work, weight=weight)
        if place % 60 == 59:
            step = Step(after, "reconfigure", settings=level())
        side.take(step)
        side.queueset.check()
        comparison.compare(side.now)
        if place % 23 == 22:
            comparison.compare_shortfalls(side.now)
