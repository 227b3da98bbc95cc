"""The heap of queues by the width of their next ticket."""

import gc

from apf_middleware.fairqueuing.width_indexed_heap import WidthIndexedHeap


def test_only_the_first_entry_of_each_width_is_examined() -> None:
    heap = WidthIndexedHeap()
    heap.place(0, 5, 30)
    heap.place(1, 6, 18)

    assert heap.first_within(0, 32) == 0
    assert heap.first_within(0, 20) is None
    heap.place(1, 4, 18)
    assert heap.first_within(0, 20) == 1


def test_a_heap_is_part_of_no_cycle() -> None:
    """Otherwise only the garbage collector could free it."""
    heap = WidthIndexedHeap()
    heap.place(0, 10, 4)

    assert not any(heap is one for part in gc.get_referents(heap) for one in gc.get_referents(part))
