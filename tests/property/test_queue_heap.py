"""The heap of queues against a plain sorted scan."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing.queue_heap import QueueHeap


class PlainQueueHeap:
    """The twin: one finish for each queue, all looked at each time."""

    def __init__(self) -> None:
        self.finish: dict[int, int] = {}

    def put(self, index: int, finish: int) -> None:
        self.finish[index] = finish

    def drop(self, index: int) -> None:
        self.finish.pop(index, None)

    def first(self, after: int) -> int | None:
        if not self.finish:
            return None
        least = min(self.finish.values())
        equals = sorted(index for index, finish in self.finish.items() if finish == least)
        return next((index for index in equals if index > after), equals[0])

    def close_up(self, index: int) -> None:
        self.finish = {other - (other > index): finish for other, finish in self.finish.items() if other != index}


def first_of(heap: QueueHeap | PlainQueueHeap, after: int) -> int:
    """Whose turn it is, when somebody is to be served."""
    index = heap.first(after)
    assert index is not None
    return index


class Pair:
    """Both heaps, and the queue served last."""

    def __init__(self) -> None:
        self.heap, self.plain = QueueHeap(), PlainQueueHeap()
        self.known = 0  # queues that have been put once; no other is ever dropped
        self.turn = 0

    def put(self, index: int, finish: int) -> None:
        self.known = max(self.known, index + 1)
        self.heap.put(index, finish)
        self.plain.put(index, finish)

    def drop(self, index: int) -> None:
        if index < self.known:
            self.heap.drop(index)
            self.plain.drop(index)

    def close_up(self, index: int) -> None:
        self.known -= index < self.known
        self.heap.close_up(index)
        self.plain.close_up(index)

    def ask(self, after: int) -> None:
        assert self.heap.first(after) == self.plain.first(after)

    def serve(self, charge: int) -> None:
        """Take the next turn; afterwards the queue has this much more waiting, or nothing if that is 0."""
        self.ask(self.turn)
        if self.plain.finish:
            self.turn = first_of(self.plain, self.turn)
            if charge:
                self.put(self.turn, self.plain.finish[self.turn] + charge)
            else:
                self.drop(self.turn)


indexes = st.integers(0, 7)
finishes = st.integers(0, 3) | st.integers(-(10**6), 2**70)

steps = st.one_of(
    st.tuples(st.just(Pair.put), indexes, st.integers(0, 3)),
    st.tuples(st.just(Pair.put), indexes, finishes),
    st.tuples(st.just(Pair.drop), indexes),
    st.tuples(st.just(Pair.ask), st.integers(-1, 9)),
    st.tuples(st.just(Pair.serve), st.integers(0, 2)),
    st.tuples(st.just(Pair.serve), st.integers(0, 2)),
    st.tuples(st.just(Pair.close_up), indexes),
)


@given(st.lists(steps, max_size=60))
def test_the_heap_agrees_with_a_plain_scan(plan: list[tuple[Callable[..., None], int]]) -> None:
    pair = Pair()
    for step, *numbers in plan:
        step(pair, *numbers)
        pair.heap.check()
    for after in range(-1, 10):
        pair.ask(after)


@pytest.mark.parametrize(("queues", "different"), [(300, 2), (300, 30), (100, 10**9), (40, 5)])
def test_the_heap_agrees_with_a_plain_scan_over_many_ties(queues: int, different: int) -> None:
    """Finishes drift upwards, as R does, so that groups of equals come up, crumble and are gathered again."""
    rng, pair = random.Random(queues * different), Pair()
    for now in range(6000):
        index, finish = rng.randrange(queues), now // 100 + rng.randrange(different)
        draw = rng.random()
        if draw < 0.5:
            pair.put(index, finish)
        elif draw < 0.6:
            pair.drop(index)
        elif draw < 0.601:
            pair.close_up(index)
        else:
            pair.serve(rng.choice((0, 1, 1, different)))
    pair.heap.check()
