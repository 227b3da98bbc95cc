"""One queue of `max-min-concurrent`: who runs and who waits in the virtual world, and what ends next there."""

from collections import OrderedDict, deque
from heapq import heapify, heappop
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.fairqueuing.disciplines.max_min import WIDTH_BITS, MaxMinQueue
from apf_middleware.fairqueuing.disciplines.timetable import NEVER

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["NOT_YET", "MaxMinConcurrentQueue"]

NOT_YET: Final = -1
"""In place of a position on P: it hasn't begun, or is over."""

_MOST_STALE: Final = 64  # entries that aren't true any more; when there are more than that, they are cleared away

_NO_LINE: Final = OrderedDict[Any, None]()  # few queues have more in them than may run virtually


class MaxMinConcurrentQueue(MaxMinQueue):
    """A queue, its meter P, and who runs and who waits in the virtual world.

    Of one whose length isn't known, ``start_r`` is where it begins on P and ``charged`` where it is expected to end; an
    entry that says otherwise is stale. One whose length is known has left the real world, and stays here as a ghost.
    """

    __slots__ = ("guesses", "line", "occupied", "overdue", "progress", "since", "soonest")

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.occupied: int = 0
        self.progress: int = 0  # P when ``occupied`` changed last
        self.since: int = 0  # W at that time, or R while it reads R
        self.guesses: deque[tuple[int, Ticket]] = deque()  # ends on P by the first guess, which come in this order
        self.overdue: list[tuple[int, int, Ticket]] = []  # a heap of (end on P by a later guess, serial, ticket)
        self.soonest: int = 0  # the first end when it was looked for last; the true one isn't before
        self.line: OrderedDict[Ticket, None] = _NO_LINE  # whoever leaves, leaves nothing behind

    def meters(self) -> dict[str, int]:
        return {"progress": self.progress, "rho": self.rho, "occupied": self.occupied}

    def stand_in_line(self, ticket: "Ticket") -> None:
        """``ticket`` starts virtually when those before it have."""
        if self.line is _NO_LINE:
            self.line = OrderedDict()
        self.line[ticket] = None

    def pass_away(self, ticket: "Ticket", end: int) -> None:
        """``ticket`` has left the real world, and its seats stay occupied here until ``end``."""
        guesses = self.guesses
        self.haunt(end, ticket.width)
        ticket.charged = NOT_YET
        if guesses and guesses[0][1] is ticket:  # as it mostly is
            guesses.popleft()
        else:
            self.tidy()

    def clear(self) -> None:
        """Nobody is here any more."""
        self.ghosts.clear()
        self.guesses.clear()
        self.overdue.clear()
        self.line = _NO_LINE
        self.occupied = 0

    def first_end(self) -> int:
        """Where the next request ends on P; entries that come up and aren't true any more are dropped."""
        ghosts, guesses, overdue = self.ghosts, self.guesses, self.overdue
        end = ghosts[0] >> WIDTH_BITS if ghosts else NEVER
        while guesses:
            guess, ticket = guesses[0]
            if ticket.charged == guess:
                if guess < end:  # noqa: PLR1730 - min() is slower
                    end = guess
                break
            guesses.popleft()
        while overdue:
            guess, _, ticket = overdue[0]
            if ticket.charged == guess:
                return min(guess, end)
            heappop(overdue)
        return end

    def tidy(self) -> None:
        """Drop the entries that aren't true any more: the oldest, and all if they are too many."""
        guesses = self.guesses
        while guesses and guesses[0][1].charged != guesses[0][0]:
            guesses.popleft()
        if len(guesses) + len(self.overdue) > 2 * self.occupied + _MOST_STALE:
            self.guesses = deque(entry for entry in guesses if entry[1].charged == entry[0])
            self.overdue = [entry for entry in self.overdue if entry[2].charged == entry[0]]
            heapify(self.overdue)
