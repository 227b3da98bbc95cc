"""Seats that are billed, seats that stay taken after the reply, and seats saved up for a wide ticket.

**Back-fill.** A wide ticket is next, and too few seats are free. If no other ticket is seated until enough are free (as
in Kubernetes), seats stand empty for as long as the longest running request lasts. If every ticket that fits is seated,
the wide one may wait for ever. So others may pass it, but in a bounded number of *rounds*:

    A round ends as soon as the ticket would fit if the tickets that passed it in this round weren't there. Until then
    they have not delayed it; from then on they would. In the next round they count like any other running ticket.

A round lasts at most as long as the longest request: after that time, all requests that ran when it began are over. The
same holds for the time after the last round, when no ticket may pass any more. With n rounds a ticket that is next
waits at most n + 1 times as long as the longest request lasts, however many others there are, and no duration has to be
known in advance. With 0 rounds, no ticket ever passes.

All the same, flows of narrow tickets that always pass would get more than their fair share. Therefore no ticket of its
own level passes one whose queue is overdue (see `guarantee`).

Another ticket may become next meanwhile. Each time that a ticket becomes next anew, one of its rounds is spent, so two
wide tickets can't delay each other without end.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from apf_middleware.exceptions import require_amount
from apf_middleware.fairqueuing.ticket import Ticket
from apf_middleware.fairqueuing.work import round_half_away

__all__ = ["Charges", "Lingering", "Passed", "Reservation"]

Passed = dict[Ticket, tuple["Reservation", ...]]
"""Tickets that have passed others and still have their seats, with the reservations that count them in a round."""


class Charges:
    """The numbers of seats for which tickets are billed, if these aren't the seats that they hold.

    A discipline is told another duration instead: the one in which the ticket's own seats would do the billed work.
    """

    __slots__ = ("seats",)

    def __init__(self) -> None:
        self.seats: dict[Ticket, float] = {}

    def add(self, ticket: Ticket, seats: float) -> None:
        """Bill ``ticket`` for this number of ``seats``, for its whole duration."""
        self.seats[ticket] = require_amount("seats", seats)

    def billed_ns(self, ticket: Ticket, held_ns: int) -> int:
        """Return the duration that is billed for ``ticket`` when it is released after ``held_ns``."""
        seats = self.seats.get(ticket)
        return held_ns if seats is None else round_half_away(held_ns * seats / ticket.work.seats)

    def settle(self, ticket: Ticket, held_ns: int) -> int:
        """Return the same as `billed_ns`, and forget ``ticket``."""
        billed = self.billed_ns(ticket, held_ns)
        self.seats.pop(ticket, None)
        return billed

    def __repr__(self) -> str:
        return f"<Charges: {len(self.seats)} tickets>"


class Lingering:
    """Tickets that keep their seats after the reply, by the time at which the seats come free.

    ``next_at`` is the first of these times, or None.
    """

    __slots__ = ("_added", "_heap", "next_at")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Ticket]] = []  # (end, serial number, ticket)
        self._added = 0
        self.next_at: int | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Ticket]:
        return (ticket for _, _, ticket in self._heap)

    def add(self, ends_at: int, ticket: Ticket) -> None:
        """Add ``ticket``, which keeps its seats until ``ends_at``."""
        self._added += 1
        heappush(self._heap, (ends_at, self._added, ticket))
        self.next_at = self._heap[0][0]

    def pop_until(self, now: int) -> Iterator[tuple[int, Ticket]]:
        """Remove the tickets that are due by ``now``, and yield each with its end, the first end first."""
        while self._heap and self._heap[0][0] <= now:
            ends_at, _, ticket = heappop(self._heap)
            self.next_at = self._heap[0][0] if self._heap else None
            yield ends_at, ticket

    def check(self) -> None:
        """Raise AssertionError unless all tickets linger and the first end is known."""
        assert all(ticket.state.value == "lingering" for _, _, ticket in self._heap), f"not lingering in {self!r}"
        assert self.next_at == min((ends_at for ends_at, _, _ in self._heap), default=None), f"the first of {self!r}"

    def __repr__(self) -> str:
        return f"<Lingering: {len(self._heap)} tickets, the first until {self.next_at}>"


class Reservation:
    """The seats saved up in one queue set for ``head``; ``rounds`` counts the rounds of each waiting ticket.

    ``own_tickets`` is the number of tickets of this queue set that have passed the head in this round, and
    ``own_seats`` that of their seats. Where levels share seats, ``other_seats`` are those of the tickets of other queue
    sets that have passed, and all of these queue sets have one common mapping ``passed``.
    """

    __slots__ = ("_members", "head", "other_seats", "own_seats", "own_tickets", "passed", "rounds")

    def __init__(self, passed: Passed) -> None:
        self.passed: Passed = passed
        self._members: dict[Ticket, bool] = {}  # passed in this round; True: of this queue set
        self.head: Ticket | None = None
        self.rounds: dict[Ticket, int] = {}
        self.own_seats: int = 0
        self.own_tickets: int = 0
        self.other_seats: int = 0

    def join(self, passed: Passed) -> None:
        """Use the mapping ``passed`` in common with the other queue sets that share the seats."""
        assert self.passed is passed or not self._members, f"tickets have passed in {self!r}"
        self.passed = passed

    def begin(self, head: Ticket) -> None:
        """Begin a round of ``head``: it has become next, or the tickets that passed it begin to delay it."""
        self._clear()
        self.head = head
        self.rounds[head] = self.rounds.get(head, 0) + 1

    def may_be_passed(self, head: Ticket, rounds: int, *, would_fit: bool) -> bool:
        """Return whether another ticket may pass ``head``, which may be passed in this number of ``rounds``.

        A new round begins if ``head`` ``would_fit`` without the tickets that passed it in this round.
        """
        if self.head is not head or would_fit:
            self.begin(head)
        return self.rounds[head] <= rounds

    def end(self, ticket: Ticket) -> None:
        """Forget ``ticket``, which doesn't wait any more."""
        self.rounds.pop(ticket, None)
        if ticket is self.head:
            self._clear()
            self.head = None

    def let_pass(self, ticket: Ticket, *, own: bool) -> None:
        """Note that ``ticket`` has been seated before the head."""
        self._members[ticket] = own
        self.passed[ticket] = (*self.passed.get(ticket, ()), self)
        self._count(ticket, own=own, sign=1)

    def vacate(self, ticket: Ticket) -> None:
        """Note that the seats of ``ticket`` are free, in the reservations of all tickets that it has passed."""
        for reservation in self.passed.pop(ticket, ()):
            reservation._count(ticket, own=reservation._members.pop(ticket), sign=-1)  # noqa: SLF001 - same class

    def _count(self, ticket: Ticket, *, own: bool, sign: int) -> None:
        if own:
            self.own_seats += sign * ticket.width
            self.own_tickets += sign
        else:
            self.other_seats += sign * ticket.width

    def _clear(self) -> None:
        passed = self.passed
        for ticket in self._members:
            others = tuple(one for one in passed.pop(ticket) if one is not self)
            if others:
                passed[ticket] = others
        self._members.clear()
        self.own_seats = self.own_tickets = self.other_seats = 0

    def check(self) -> None:
        """Raise AssertionError unless the sums add up."""
        own = [ticket for ticket, is_own in self._members.items() if is_own]
        others = [ticket for ticket, is_own in self._members.items() if not is_own]
        assert self.own_seats == sum(ticket.width for ticket in own), f"own seats of {self!r}"
        assert self.own_tickets == len(own), f"own tickets of {self!r}"
        assert self.other_seats == sum(ticket.width for ticket in others), f"other seats of {self!r}"
        assert all(self in self.passed[ticket] for ticket in self._members), f"tickets that passed in {self!r}"
        assert all(ticket.is_waiting for ticket in self.rounds), f"waiting tickets of {self!r}"
        assert self.head is None or self.head in self.rounds, f"the head of {self!r}"

    def __repr__(self) -> str:
        return f"<Reservation for {self.head!r}: {len(self._members)} passed>"
