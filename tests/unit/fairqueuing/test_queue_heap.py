"""The heap of queues: ties, and what many of them cost."""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Collection

import pytest

from apf_middleware import is_compiled
from apf_middleware.fairqueuing import queue_heap as heap_module
from apf_middleware.fairqueuing.queue_heap import QueueHeap


def first_of(heap: QueueHeap, after: int) -> int:
    """Whose turn it is, when somebody is to be served."""
    index = heap.first(after)
    assert index is not None
    return index


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


@pytest.mark.skipif(is_compiled, reason="calls of compiled functions can't be counted")
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


@pytest.mark.parametrize("begin", [0, 10**18])
def test_entries_stay_short_however_far_finishes_rise(begin: int) -> None:
    """Compiled code makes an object for each integer of more than 62 bits."""
    heap, rng, queues, turn, least = QueueHeap(), random.Random(1), 50, 0, begin
    finish = dict.fromkeys(range(queues), begin)
    for index in finish:
        heap.put(index, begin)

    for step in range(5_000):
        before, turn = turn, first_of(heap, turn)
        least = min(finish.values())
        ties = [index for index in finish if finish[index] == least]
        assert turn == next((index for index in ties if index > before), ties[0])
        assert heap.finish_of(turn) == least
        finish[turn] += rng.choice((2**34, 2**35))
        heap.put(turn, finish[turn])
        if step % 100 == 0:
            heap.check()
            assert all(abs(entry) < 1 << 62 for entry in heap._entries)

    assert least > begin + 2**40


@pytest.mark.skipif(is_compiled, reason="calls of compiled functions can't be counted")
def test_finishes_that_are_far_apart_do_not_move_the_base_each_time(touched: Counter[str]) -> None:
    heap, puts, queues = QueueHeap(), 20_000, 100
    for index in range(queues):
        heap.put(index, 0)
    for number in range(puts):
        heap.put(1 + number % (queues - 1), number << 40)  # the first queue is never served

    assert heap.first(0) == 0
    assert touched["heapify"] <= 3 * puts
