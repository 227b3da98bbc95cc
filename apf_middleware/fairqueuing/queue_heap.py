"""A heap of queues by virtual finish, in which equals take turns.

A heap of (finish, queue index) with lazy deletion: a table has the actual finish of each queue, and an entry that
disagrees with it is dropped when it comes to the top. Every operation costs O(log n) amortised, also when thousands of
queues are tied: when entries with the same finish come to the top, each is moved once into a sorted group, for which
the heap has one marker. The queue of the group that has the next turn is found by bisection.

Finishes rise without end. Therefore entries contain the difference to a base, which follows from time to time.
Otherwise they would have more than 62 bits after some minutes, and compiled code handles such integers slowly.
"""

from bisect import bisect_left, bisect_right
from heapq import heapify
from typing import Any, Final

from apf_middleware.fairqueuing.heaps import heappop, heappush, heapreplace

__all__ = ["OFF", "QueueHeap"]

_INDEX_BITS: Final = 24  # an entry is one integer, finish and index side by side: quicker to compare than a tuple
_INDEX: Final = (1 << _INDEX_BITS) - 1
_NEAR: Final = 1 << 37  # so far from the base an entry has fewer than 62 bits
_GROUP: Final = _INDEX  # stands for the queues of the group with this finish; no queue has so large an index
_END: Final = _INDEX - 1  # in place of a queue index, too: the heap has no further entry
_LAST: Final = 1 << 4096 | _END  # no finish is so late
_BOTTOM: Final = (_LAST,) * 3  # stays in each heap, so that there are always a top and two entries below it

OFF: Final = -1 << _INDEX_BITS | _END
"""The entry of a queue that isn't on the heap. No heap has it, and compiled code keeps it without an object."""


class QueueHeap:
    """The queues with waiting tickets, by the finish that their oldest ticket would have."""

    __slots__ = ("_base", "_entries", "_far", "_groups", "_heap")

    def __init__(self) -> None:
        self._base = 0
        self._far = 0  # finishes that were put far from the base since it moved
        self._entries: list[int] = []  # by queue index, the valid ones
        self._heap: list[int] = [*_BOTTOM]
        self._groups: dict[int, list[int]] = {}  # finish from the base -> queue indexes, ascending

    def put(self, index: int, finish: int) -> None:
        """Set the finish of the queue with this index."""
        finish -= self._base
        if finish >= _NEAR:
            finish = self._follow(finish)
        entry = finish << _INDEX_BITS | index
        entries = self._entries
        if index >= len(entries):
            entries.extend([OFF] * (index + 1 - len(entries)))
        former = entries[index]
        if former == entry:
            return
        boxed: Any = entry  # one object for both lists, also in compiled code
        entries[index] = boxed
        if self._groups and finish in self._groups:
            self._join(self._groups[finish], index)
            return
        heap = self._heap
        if heap[0] == former:  # the top is this queue's former entry, which is outdated now
            heapreplace(heap, boxed)
            return
        heappush(heap, boxed)
        if len(heap) > 2 * len(entries) + 64:  # rarely enough for a pass over all queues to cost O(1)
            self._rebuild()

    @staticmethod
    def _join(group: list[int], index: int) -> None:
        place = bisect_left(group, index)
        if place == len(group) or group[place] != index:  # it may still be there from an earlier time
            group.insert(place, index)

    def _follow(self, finish: int) -> int:
        """Move the base to the least finish, if many were put far from it; return the distance of ``finish`` to it."""
        entries = self._entries
        self._far += 1
        if self._far <= len(entries):  # rarely enough for a pass over all queues to cost O(1)
            return finish
        self._far = 0
        way = min((entry for entry in entries if entry != OFF), default=finish << _INDEX_BITS) >> _INDEX_BITS
        self._base += way
        self._entries = [entry if entry == OFF else entry - (way << _INDEX_BITS) for entry in entries]
        self._rebuild()
        return finish - way

    def drop(self, index: int) -> None:
        """Remove the queue with this index: nothing waits there any more."""
        self._entries[index] = OFF

    def first(self, after: int) -> int | None:
        """Return the index of the queue with the least finish; among equals, the next one after ``after``, cyclically.

        Return None if the heap is empty.
        """
        heap, entries = self._heap, self._entries
        while True:
            top = heap[0]
            index = top & _INDEX
            if index < _END:
                if entries[index] != top:
                    heappop(heap)
                    continue
                bound = top | _INDEX  # equals of the top, if there are any, are among the two below it
                if heap[1] > bound and heap[2] > bound:
                    return index
                self._gather(top >> _INDEX_BITS)
            elif index == _GROUP:
                member = self._next_of_group(top >> _INDEX_BITS, after)
                if member is not None:
                    return member
            else:
                return None

    def least(self) -> int | None:
        """Return the index of the queue with the least finish; among equals, the least index. This makes no groups.

        Return None if the heap is empty. A heap is used with this method or with `first`, never with both.
        """
        heap, entries = self._heap, self._entries
        while len(heap) > len(_BOTTOM):
            top = heap[0]
            index = top & _INDEX
            if entries[index] == top:
                return index
            heappop(heap)
        return None

    def floor(self) -> int:
        """Return a lower bound of the finishes of all queues on the heap."""
        return self._base + (self._heap[0] >> _INDEX_BITS)

    def finish_of(self, index: int) -> int:
        """Return the finish of a queue that is on the heap."""
        entry = self._entries[index]
        assert entry != OFF, f"queue {index} is not on the heap"
        return self._base + (entry >> _INDEX_BITS)

    def members(self) -> set[int]:
        """Return the indexes of the queues that are on the heap."""
        return {index for index, entry in enumerate(self._entries) if entry != OFF}

    def _gather(self, finish: int) -> None:
        """Make one group of all queues that are tied at the top, at this ``finish`` from the base."""
        heap, members = self._heap, set[int]()
        marker = finish << _INDEX_BITS | _GROUP
        while heap[0] <= marker:
            entry = heappop(heap)
            index = entry & _INDEX
            if index == _GROUP:
                members.update(self._groups.pop(finish))
            elif self._entries[index] == entry:
                members.add(index)
        self._groups[finish] = sorted(members)
        heappush(heap, marker)

    def _next_of_group(self, finish: int, after: int) -> int | None:
        """Return the next queue of the group at the top; if all of it is outdated, remove it and return None."""
        group, entries, entry = self._groups[finish], self._entries, finish << _INDEX_BITS
        while group:
            place = bisect_right(group, after)
            if place == len(group):
                place = 0
            index = group[place]
            if entries[index] == entry | index:
                return index
            del group[place]
        del self._groups[finish]
        heappop(self._heap)
        return None

    def _rebuild(self) -> None:
        """Drop outdated entries."""
        self._groups.clear()
        self._heap = [entry for entry in self._entries if entry != OFF]
        self._heap += _BOTTOM
        heapify(self._heap)

    def close_up(self, index: int) -> None:
        """Remove the queue with this index, and move those behind it up by one."""
        entries = self._entries
        for place in range(index + 1, len(entries)):
            if entries[place] != OFF:
                entries[place] -= 1
        del entries[index : index + 1]
        self._rebuild()

    def check(self) -> None:
        """Raise AssertionError unless every finish is in the heap, or in a group with a marker in the heap."""
        entries = set(self._heap)
        for index, entry in enumerate(self._entries):
            if entry == OFF:
                continue
            finish = entry >> _INDEX_BITS
            assert entry & _INDEX == index, f"queue {index} has the entry of another one"
            if entry not in entries:
                assert finish << _INDEX_BITS | _GROUP in entries, f"queue {index} with finish {finish} is nowhere"
                assert index in self._groups[finish], f"queue {index} is missing in its group"
        for finish, group in self._groups.items():
            assert group == sorted(group), f"the group of {finish} is out of order: {group}"
            assert finish << _INDEX_BITS | _GROUP in entries, f"the heap has no marker for the group of {finish}"
        assert self._heap.count(_LAST) == len(_BOTTOM), "the heap has lost its bottom"

    def __repr__(self) -> str:
        entries = len(self._heap) - len(_BOTTOM)
        return f"<QueueHeap of {len(self.members())} queues, {entries} entries, {len(self._groups)} groups>"
