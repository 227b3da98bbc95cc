"""Tickets whose reply is out and whose seats stay taken for a while: who, until when."""

from collections.abc import Iterator
from heapq import heappop, heappush

from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["Lingering"]


class Lingering:
    """The lingering tickets of a queue set. ``next_at`` is when the first of them ends, None while there is none."""

    __slots__ = ("_added", "_heap", "next_at")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Ticket]] = []  # (ends at, in which order it was added, who)
        self._added = 0
        self.next_at: int | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Ticket]:
        return (ticket for _, _, ticket in self._heap)

    def add(self, ends_at: int, ticket: Ticket) -> None:
        self._added += 1
        heappush(self._heap, (ends_at, self._added, ticket))
        self.next_at = self._heap[0][0]

    def pop_until(self, now: int) -> Iterator[tuple[int, Ticket]]:
        """Those that end by ``now``, each with its end, in the order of their ends."""
        while self._heap and self._heap[0][0] <= now:
            ends_at, _, ticket = heappop(self._heap)
            self.next_at = self._heap[0][0] if self._heap else None
            yield ends_at, ticket

    def check(self) -> None:
        """Raise AssertionError unless all linger and the first end is known."""
        assert all(ticket.state.value == "lingering" for _, _, ticket in self._heap), f"not lingering in {self!r}"
        assert self.next_at == min((ends_at for ends_at, _, _ in self._heap), default=None), f"the first of {self!r}"

    def __repr__(self) -> str:
        return f"<Lingering of {len(self._heap)} tickets, the first until {self.next_at}>"
