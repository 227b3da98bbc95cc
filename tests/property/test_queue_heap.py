"""The heap against a plain sorted scan, and what a crowd of equals costs."""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing import queue_heap as heap_module
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


@pytest.mark.parametrize("last", [0, 1, 1234, 2999, 3000])
def test_ties_are_served_in_round_robin_order(last: int) -> None:
    heap, queues = QueueHeap(), 3000
    for index in random.Random(last).sample(range(queues), queues):
        heap.put(index, 7)

    served, turn = [], last
    for _ in range(2 * queues):
        turn = first_of(heap, turn)
        served.append(turn)

    first_round = [*range(last + 1, queues), *range(min(last + 1, queues))]
    assert served == first_round * 2


def test_an_entry_removed_among_equals_is_skipped_and_can_be_added_again() -> None:
    heap, queues = QueueHeap(), 2000
    for index in range(queues):
        heap.put(index, 7)
    assert heap.first(0) == 1

    for index in range(1, queues, 2):
        heap.drop(index)
    assert heap.first(0) == 2
    heap.put(1, 7)
    assert heap.first(0) == 1
    heap.put(1, 6)
    assert heap.first(1) == 1
    heap.put(1, 8)
    assert heap.first(0) == 2
    heap.check()


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many entries are handled, by the function that does it."""
    counts = Counter[str]()

    def count(name: str, original: Callable[..., object], *, all_at_once: bool = False) -> None:
        def counted(entries: Collection[int], *rest: int) -> object:
            counts[name] += len(entries) if all_at_once else 1
            return original(entries, *rest)

        monkeypatch.setattr(heap_module, name, counted, raising=False)

    count("heappop", heapq.heappop)
    count("heappush", heapq.heappush)
    count("heapreplace", heapq.heapreplace)
    count("heapify", heapq.heapify, all_at_once=True)
    count("sorted", sorted, all_at_once=True)
    return counts


@pytest.mark.parametrize("queues", [100, 1000, 10_000])
@pytest.mark.parametrize("charges", [(5,), (5, 6), tuple(range(5, 50))], ids=len)
def test_serving_handles_few_entries_among_many_ties(
    queues: int, charges: tuple[int, ...], touched: Counter[str]
) -> None:
    """Not timed but counted, so it can't flicker: a crowd that were gathered anew for each serving would show."""
    heap, rng, servings, turn = QueueHeap(), random.Random(1), 20_000, 0
    finish = [7] * queues
    for index in range(queues):
        heap.put(index, 7)

    for _ in range(servings):
        turn = first_of(heap, turn)
        finish[turn] += rng.choice(charges)
        heap.put(turn, finish[turn])

    assert touched["heappop"] > servings / 2, "what is counted is what is done"
    assert touched.total() <= 4 * (servings + queues)


@pytest.mark.parametrize("queues", [100, 1000, 10_000])
def test_adding_an_equal_entry_is_cheap(queues: int, touched: Counter[str]) -> None:
    """As it is with flows that come and go while all are served alike."""
    heap, comings, turn, gone = QueueHeap(), 20_000, 0, [0]
    for index in range(1, queues):
        heap.put(index, 7)

    for _ in range(comings):
        turn = first_of(heap, turn)
        heap.drop(turn)
        gone.append(turn)
        heap.put(gone.pop(0), 7)

    assert touched.total() <= 4 * (comings + queues)


def test_stale_entries_do_not_pile_up() -> None:
    heap, queues, most = QueueHeap(), 50, 0
    for finish in range(20_000):
        heap.put(finish * 7 % queues, finish * 31 % 1009)
        most = max(most, len(heap._heap))

    assert most <= 2 * queues + 64
