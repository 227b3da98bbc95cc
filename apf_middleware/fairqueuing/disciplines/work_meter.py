"""The part of a queue in the fluid model of the max-min disciplines: its demand, its work meter and its next events.

The queue set counts the requests of a `MaxMinQueue`, and the fluid model reads and moves its `WorkMeter`. Each of the
two disciplines has a work meter of its own, because it determines the next events of a queue by rules of its own.
"""

from abc import ABC, abstractmethod
from bisect import insort
from typing import Final, Generic, TypeVar

from apf_middleware.fairqueuing.heaps import heappush
from apf_middleware.fairqueuing.queue_share import Share
from apf_middleware.fairqueuing.ticket import Queue, Ticket
from apf_middleware.fairqueuing.work import WEIGHT_BITS

__all__ = ["IS_WIDE", "MaxMinQueue", "WorkMeter"]

IS_WIDE: Final = 1
"""The lowest bit of a virtual end of more than one seat; the position is above it."""


class WorkMeter(ABC):
    """The demand of one queue and its meter W in the fluid model; ``guess_ns`` is the average of its latest durations.

    ``index`` is that of the queue, and ``share`` its demand in `MaxMinShares`. The weight is 1, or in units of
    `WEIGHT_ONE` if the meter ``is_weighted``. While the meter is ``on_r``, ``base`` is its difference to R; otherwise
    ``base`` is its position at the time ``mark``, and ``remainder`` what is left of the division by the weight.
    ``first`` is the oldest ticket of the queue, or one that is about to become the oldest. ``virtual_ends`` are
    requests that have really ended but not yet in the model. They are a heap of integers, each of which combines a
    position and `IS_WIDE`; integers are faster to compare than tuples, and the garbage collector ignores them.
    ``wide_ends`` has the widths of the wide ones, ascending.
    """

    __slots__ = (
        "base",
        "end_is_stale",
        "finish_is_stale",
        "first",
        "guess_ns",
        "has_end",
        "has_finish",
        "index",
        "is_weighted",
        "mark",
        "on_r",
        "remainder",
        "share",
        "virtual_ends",
        "wide_ends",
    )

    def __init__(self, index: int, guess_ns: int) -> None:
        self.index: int = index
        self.share: Share = Share(index)
        self.guess_ns: int = guess_ns
        self.is_weighted: bool = False
        self.base: int = 0
        self.remainder: int = 0
        self.mark: int = 0
        self.on_r: bool = False
        self.first: Ticket | None = None
        self.virtual_ends: list[int] = []
        self.wide_ends: dict[int, list[int]] = {}
        self.has_finish: bool = False  # it has an entry in a heap of finishes
        self.finish_is_stale: bool = False
        self.has_end: bool = False  # it has an entry in a heap of ends
        self.end_is_stale: bool = False

    @abstractmethod
    def finish_of(self, first: Ticket) -> int:
        """Return the position at which ``first`` would be finished: on R if the queue is limited, else on its meter."""

    @abstractmethod
    def next_end(self) -> int | None:
        """Return the position of the next event in this queue: on R if the queue is limited, else on its meter."""

    @abstractmethod
    def shift_positions(self, way: int) -> None:
        """Add ``way`` to the stored positions, because the queue reads the other meter from now on."""

    @abstractmethod
    def figures(self) -> dict[str, int]:
        """Return the discipline's numbers for this queue, by name."""

    def scaled(self, grains: int) -> int:
        """Return how far the meter moves for this amount of work: the work divided by the queue's weight."""
        return (grains << WEIGHT_BITS) // self.share.weight if self.is_weighted else grains

    def end_virtually(self, end: int, width: int) -> None:
        """Keep the seats of a request that has really ended occupied in the model until ``end``."""
        virtual_end = end << 1
        if width > 1:
            virtual_end |= IS_WIDE
            insort(self.wide_ends.setdefault(virtual_end, []), width)
        heappush(self.virtual_ends, virtual_end)

    def take_width(self, virtual_end: int) -> int:
        """Return the width of a wide end, which has been removed from the heap: the least if several are equal."""
        widths = self.wide_ends[virtual_end]
        width = widths.pop(0)
        if not widths:
            del self.wide_ends[virtual_end]
        return width

    def seats_of_virtual_ends(self) -> int:
        """Return the sum of the widths."""
        narrow = sum(1 for virtual_end in self.virtual_ends if not virtual_end & IS_WIDE)
        return narrow + sum(map(sum, self.wide_ends.values()))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.index}: {self.share.rho} seats demanded>"


WorkMeterT = TypeVar("WorkMeterT", bound=WorkMeter)


class MaxMinQueue(Queue, Generic[WorkMeterT]):
    """A queue and its ``meter``."""

    __slots__ = ("meter",)

    def __init__(self, meter: WorkMeterT) -> None:
        super().__init__(meter.index)
        self.meter: WorkMeterT = meter

    def meters(self) -> dict[str, int]:
        return self.meter.figures()
