"""Which queue comes next: the one with the least virtual finish, and among equals the next one round.

A heap of (finish, queue index) with lazy deletion: the true finish of each queue stands in a table, and an entry that
disagrees with it is dropped when it comes to the top. Every operation costs O(log n) amortised, also when thousands of
queues are tied: entries with the same finish that meet at the top are gathered, once each, into a sorted group that
the heap knows by one marker, and the turn goes round that group by bisection.
"""

from bisect import bisect_left, bisect_right
from heapq import heapify, heappop, heappush, heapreplace

__all__ = ["Agenda"]

_INDEX_BITS = 24  # an entry is one integer, finish and index side by side: quicker to compare than a tuple
_INDEX = (1 << _INDEX_BITS) - 1
_GROUP = _INDEX  # stands for a queue index: "see the group of this finish"; there are never so many queues


class Agenda:
    """The queues that have somebody to serve, by the finish that their oldest ticket would have."""

    __slots__ = ("_crowded", "_finish", "_groups", "_heap")

    def __init__(self) -> None:
        self._finish: list[int | None] = []  # by queue index
        self._heap: list[int] = []
        self._groups: dict[int, list[int]] = {}  # finish -> queue indexes, ascending
        self._crowded = 64

    def put(self, index: int, finish: int) -> None:
        """The queue with this index now has this finish, whatever it had before."""
        finishes = self._finish
        if index >= len(finishes):
            finishes.extend([None] * (index + 1 - len(finishes)))
        elif finishes[index] == finish:
            return
        finishes[index] = finish
        if self._groups and finish in self._groups:
            self._join(self._groups[finish], index)
            return
        heap = self._heap
        if heap and heap[0] & _INDEX == index:  # the entry at the top is this queue's own, so it is stale by now
            heapreplace(heap, finish << _INDEX_BITS | index)
            return
        heappush(heap, finish << _INDEX_BITS | index)
        if len(heap) > self._crowded:
            self._rebuild()

    @staticmethod
    def _join(group: list[int], index: int) -> None:
        place = bisect_left(group, index)
        if place == len(group) or group[place] != index:  # it may still be there from an earlier time
            group.insert(place, index)

    def drop(self, index: int) -> None:
        """The queue with this index has nobody to serve any more."""
        self._finish[index] = None

    def first(self, after: int) -> int:
        """The index of the queue with the least finish; among equals the first one after ``after``, going round.

        LookupError when nobody is to be served.
        """
        heap, finishes = self._heap, self._finish
        while heap:
            finish, index = heap[0] >> _INDEX_BITS, heap[0] & _INDEX
            if index == _GROUP:
                member = self._next_of_group(finish, after)
                if member is not None:
                    return member
            elif finishes[index] != finish:
                heappop(heap)
            # Equals of the top, if there are any, are among its two children.
            elif (len(heap) > 1 and heap[1] >> _INDEX_BITS == finish) or (
                len(heap) > 2 and heap[2] >> _INDEX_BITS == finish
            ):
                self._gather(finish)
            else:
                return index
        raise LookupError("nobody is to be served")

    def least(self) -> int:
        """As `first`, where it doesn't matter which of equals it is: the one with the least index, without gathering.

        An agenda is asked either this or `first`, and not now this and now that.
        """
        heap, finishes = self._heap, self._finish
        while heap:
            index = heap[0] & _INDEX
            if finishes[index] == heap[0] >> _INDEX_BITS:
                return index
            heappop(heap)
        raise LookupError("nobody is to be served")

    def reaches(self, finish: int) -> bool:
        """Whether a queue may be on the agenda that comes to its end by ``finish``; if not, none is."""
        heap = self._heap
        return bool(heap) and heap[0] >> _INDEX_BITS <= finish

    def peek(self, after: int) -> int | None:
        """As `first`, but None when nobody is to be served."""
        try:
            return self.first(after) if self._heap else None
        except LookupError:
            return None

    def finish_of(self, index: int) -> int:
        """The finish of a queue that is on the agenda."""
        finish = self._finish[index]
        assert finish is not None, f"queue {index} is not on the agenda"
        return finish

    def members(self) -> set[int]:
        """The indexes of the queues that are on the agenda."""
        return {index for index, finish in enumerate(self._finish) if finish is not None}

    def _gather(self, finish: int) -> None:
        """Make one group of all queues that are tied at the top."""
        heap, members = self._heap, set[int]()
        while heap and heap[0] >> _INDEX_BITS == finish:
            index = heappop(heap) & _INDEX
            if index == _GROUP:
                members.update(self._groups.pop(finish))
            elif self._finish[index] == finish:
                members.add(index)
        self._groups[finish] = sorted(members)
        heappush(heap, finish << _INDEX_BITS | _GROUP)

    def _next_of_group(self, finish: int, after: int) -> int | None:
        """Whose turn it is in the group at the top; None when all of it is stale, and then the group is gone."""
        group = self._groups[finish]
        while group:
            place = bisect_right(group, after)
            if place == len(group):
                place = 0
            if self._finish[group[place]] == finish:
                return group[place]
            del group[place]
        del self._groups[finish]
        heappop(self._heap)
        return None

    def _rebuild(self) -> None:
        """Forget what is stale. The heap may grow to twice what is left before it happens again."""
        self._groups.clear()
        self._heap = [finish << _INDEX_BITS | index for index, finish in enumerate(self._finish) if finish is not None]
        heapify(self._heap)
        self._crowded = 2 * max(len(self._finish), len(self._heap)) + 64

    def close_up(self, index: int) -> None:
        """The queue with this index is gone, and those behind it have moved up by one."""
        del self._finish[index : index + 1]
        self._rebuild()

    def check(self) -> None:
        """Raise AssertionError unless every finish is found by the heap or by a group that the heap knows."""
        entries = {(entry >> _INDEX_BITS, entry & _INDEX) for entry in self._heap}
        for index, finish in enumerate(self._finish):
            if finish is not None and (finish, index) not in entries:
                assert (finish, _GROUP) in entries, f"queue {index} with finish {finish} is nowhere"
                assert index in self._groups[finish], f"queue {index} is missing in its group"
        for finish, group in self._groups.items():
            assert group == sorted(group), f"the group of {finish} is out of order: {group}"
            assert (finish, _GROUP) in entries, f"the heap doesn't know the group of {finish}"

    def __repr__(self) -> str:
        queues = sum(finish is not None for finish in self._finish)
        return f"<Agenda of {queues} queues, {len(self._heap)} entries, {len(self._groups)} groups>"
