"""One queue of `max-min-concurrent`: who runs and who waits in the virtual world, and what ends next there."""

from collections import OrderedDict, deque
from heapq import heapify, heappop
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.fairqueuing.disciplines.max_min import MaxMinQueue

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["NOT_YET", "MaxMinConcurrentQueue"]

NOT_YET: Final = -1
"""In place of a position on P: it hasn't begun, or is over."""

_MOST_STALE: Final = 64  # entries that aren't true any more; when there are more than that, they are cleared away

_NO_LINE: Final = OrderedDict[Any, None]()  # few queues have more in them than may run virtually


class MaxMinConcurrentQueue(MaxMinQueue):
    """A queue, its meter P, and who runs and who waits in the virtual world.

    A ticket's ``start_r`` is where it begins on P, ``charged`` where it ends; an entry that says otherwise is stale. It
    may stay here for longer than in the real world, and what it really took is then ``settled``.
    """

    __slots__ = ("guesses", "line", "occupied", "progress", "running", "since", "soonest")

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.occupied: int = 0
        self.progress: int = 0  # P when ``occupied`` changed last
        self.since: int = 0  # W at that time
        self.guesses: deque[tuple[int, Ticket]] = deque()  # ends on P by the first guess, which come in this order
        self.running: list[tuple[int, int, Ticket]] = []  # a heap of (other end on P, serial, ticket)
        self.soonest: int = 0  # the first end when it was looked for last; the true one isn't before
        self.line: OrderedDict[Ticket, None] = _NO_LINE  # whoever leaves, leaves nothing behind

    def meters(self) -> dict[str, int]:
        return {"progress": self.progress, "rho": self.rho, "occupied": self.occupied}

    def stand_in_line(self, ticket: "Ticket") -> None:
        """``ticket`` starts virtually when those before it have."""
        if self.line is _NO_LINE:
            self.line = OrderedDict()
        self.line[ticket] = None

    def clear(self) -> None:
        """Nobody is here any more."""
        self.guesses.clear()
        self.running.clear()
        self.line = _NO_LINE
        self.occupied = 0

    def first_end(self) -> int:
        """Where the next request ends on P, if any runs; entries that come up and aren't true any more are dropped."""
        guesses, running = self.guesses, self.running
        while running and running[0][2].charged != running[0][0]:
            heappop(running)
        while guesses:
            end, ticket = guesses[0]
            if ticket.charged == end:
                return running[0][0] if running and running[0][0] < end else end
            guesses.popleft()
        return running[0][0]

    def tidy(self) -> None:
        """Drop all entries that aren't true any more, if they are too many or nobody runs."""
        guesses, running, occupied = self.guesses, self.running, self.occupied
        if not occupied:
            while guesses:
                guesses.popleft()  # quicker than to clear it, for few are left as a rule
            if running:
                running.clear()
        elif len(guesses) + len(running) > 2 * occupied + _MOST_STALE:
            self.guesses = deque(entry for entry in self.guesses if entry[1].charged == entry[0])
            self.running = [entry for entry in self.running if entry[2].charged == entry[0]]
            heapify(self.running)
