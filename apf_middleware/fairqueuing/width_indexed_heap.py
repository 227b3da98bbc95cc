"""A heap of queues that also finds the first queue with an oldest ticket that isn't too wide.

A wide ticket that waits for seats may be passed by tickets that fit into the free ones (see `seats.Reservation`). While
all tickets have a width of 1 this is a plain heap. Queues whose oldest ticket is wider are on other heaps, one for each
class of widths: 2, 3, … 16, then 17 to 32, 33 to 64 and so on. The first queue of all is the least of the first queues
of the classes. In a class with widths on both sides of the bound, only the first queue is examined. If its oldest
ticket is too wide, a later queue of this class is missed even if its oldest ticket would fit.
"""

from typing import Final

from apf_middleware.fairqueuing.queue_heap import OFF, QueueHeap

__all__ = ["WidthIndexedHeap"]

_SINGLE: Final = 16  # up to this, each width has a class of its own


def _class_of(width: int) -> int:
    return width - 1 if width <= _SINGLE else _SINGLE + (width - 1).bit_length() - _SINGLE.bit_length()


def _least(place: int) -> int:
    """Return the least width of a class."""
    return place + 1 if place < _SINGLE else (1 << place - _SINGLE + _SINGLE.bit_length() - 1) + 1


class WidthIndexedHeap(QueueHeap):
    """A heap of queues by finish and width. ``wide`` are the queues with an oldest ticket of more than one seat."""

    __slots__ = ("_wider", "wide")

    def __init__(self) -> None:
        super().__init__()
        self.wide: dict[int, int] = {}  # queue index -> width
        # The heaps of the classes after the first. This one has the first class: in the list, it would be a cycle.
        self._wider: list[QueueHeap] = []

    def place(self, index: int, finish: int, width: int) -> None:
        """Set the finish of the queue with this index, whose oldest ticket has this ``width``."""
        if width == 1 and not self.wide:
            self.put(index, finish)
            return
        new = _class_of(width)
        if new != _class_of(self.wide.get(index, 1)):
            self.drop(index)
        if not new:
            self.put(index, finish)
            return
        wider = self._wider
        while len(wider) < new:
            wider.append(QueueHeap())
        self.wide[index] = width
        wider[new - 1].put(index, finish)

    def drop(self, index: int) -> None:
        if index in self.wide:
            self._wider[_class_of(self.wide.pop(index)) - 1].drop(index)
        elif index < len(self._entries):
            self._entries[index] = OFF

    def finish_of(self, index: int) -> int:
        if index in self.wide:
            return self._wider[_class_of(self.wide[index]) - 1].finish_of(index)
        return super().finish_of(index)

    def first_within(self, after: int, widest: int | None) -> int | None:
        """Do the same as `first`, among queues with an oldest ticket no wider than ``widest``."""
        if not self.wide:
            return self.first(after)
        best: tuple[int, bool, int] | None = None
        for place, heap in enumerate((self, *self._wider)):
            if widest is not None and _least(place) > widest:
                break
            index = heap.first(after)
            if index is None or (widest is not None and self.wide.get(index, 1) > widest):
                continue
            rank = (heap.finish_of(index), index <= after, index)  # equal queues take turns
            if best is None or rank < best:
                best = rank
        return None if best is None else best[2]

    def close_up(self, index: int) -> None:
        super().close_up(index)
        for heap in self._wider:
            heap.close_up(index)
        self.wide = {other - (other > index): width for other, width in self.wide.items() if other != index}

    def check(self) -> None:
        super().check()
        for place, heap in enumerate(self._wider, 1):
            heap.check()
            members = {index for index, width in self.wide.items() if _class_of(width) == place}
            assert heap.members() == members, f"queues of class {place} in {self!r}"
        assert not self.members() & self.wide.keys(), f"queues that stand twice in {self!r}"
