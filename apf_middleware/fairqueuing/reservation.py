"""Seats saved up for a wide ticket, and how many may pass it meanwhile.

It is a wide ticket's turn, and too few seats are free. If nobody else is seated until enough are (Kubernetes), seats
stand empty for as long as the longest of those that run. If whoever fits is seated, the wide one may wait for ever. So
others may pass, but in a bounded number of *rounds*:

    A round ends as soon as the ticket would fit if those who passed in this round weren't there. So none of those who
    passed has delayed it so far; from then on they would. They count as everybody else in the next round.

A round lasts at most as long as the longest request: after that time whoever ran when it began is gone. So does the
time after the last round, when nobody passes any more. With n rounds a ticket whose turn it is waits at most n + 1
times as long as the longest request lasts, however many others there are, and nobody has to know how long a request
will last. With none, nobody ever passes.

Whose turn it is may change meanwhile. Each time that it becomes a ticket's turn anew, a round of it is spent, so that
two wide tickets can't make each other wait for ever.
"""

from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["Passed", "Reservation"]

Passed = dict[Ticket, tuple["Reservation", ...]]
"""Tickets that have passed others and still have their seats: in whose rounds they count."""


class Reservation:
    """What is saved up in one queue set. ``head`` is for whom, ``rounds`` how many each that waits has begun.

    ``own_seats`` and ``own_tickets`` are those of this queue set that passed in this round, ``other_seats`` of others.
    """

    __slots__ = ("_members", "_passed", "head", "other_seats", "own_seats", "own_tickets", "rounds")

    other_seats: int
    own_seats: int
    own_tickets: int

    def __init__(self, passed: Passed) -> None:
        self._passed = passed
        self._members: dict[Ticket, bool] = {}  # who passed in this round, and whether it is one of its own
        self.head: Ticket | None = None
        self.rounds: dict[Ticket, int] = {}
        self.own_seats = self.own_tickets = self.other_seats = 0

    def join(self, passed: Passed) -> None:
        """Tickets of other queue sets may pass too, and are noted in common."""
        assert not self._members, f"somebody has passed in {self!r}"
        self._passed = passed

    def begin(self, head: Ticket) -> None:
        """It is the turn of ``head``, and it doesn't fit; or those who passed it begin to stand in its way."""
        self._clear()
        self.head = head
        self.rounds[head] = self.rounds.get(head, 0) + 1

    def end(self, ticket: Ticket) -> None:
        """``ticket`` doesn't wait any more."""
        self.rounds.pop(ticket, None)
        if ticket is self.head:
            self._clear()
            self.head = None

    def let_pass(self, ticket: Ticket, *, own: bool) -> None:
        """``ticket`` has been seated before the head."""
        self._members[ticket] = own
        self._passed[ticket] = (*self._passed.get(ticket, ()), self)
        self._count(ticket, own=own, sign=1)

    def vacate(self, ticket: Ticket) -> None:
        """The seats of ``ticket``, which passed, are free."""
        self._count(ticket, own=self._members.pop(ticket), sign=-1)

    def _count(self, ticket: Ticket, *, own: bool, sign: int) -> None:
        if own:
            self.own_seats += sign * ticket.width
            self.own_tickets += sign
        else:
            self.other_seats += sign * ticket.width

    def _clear(self) -> None:
        passed = self._passed
        for ticket in self._members:
            others = tuple(one for one in passed.pop(ticket) if one is not self)
            if others:
                passed[ticket] = others
        self._members.clear()
        self.own_seats = self.own_tickets = self.other_seats = 0

    def check(self) -> None:
        """Raise AssertionError where the sums don't add up."""
        own = [ticket for ticket, is_own in self._members.items() if is_own]
        others = [ticket for ticket, is_own in self._members.items() if not is_own]
        assert self.own_seats == sum(ticket.width for ticket in own), f"own seats of {self!r}"
        assert self.own_tickets == len(own), f"own tickets of {self!r}"
        assert self.other_seats == sum(ticket.width for ticket in others), f"other seats of {self!r}"
        assert all(self in self._passed[ticket] for ticket in self._members), f"who passed in {self!r}"
        assert all(ticket.is_waiting for ticket in self.rounds), f"who waits in {self!r}"
        assert self.head is None or self.head in self.rounds, f"the head of {self!r}"

    def __repr__(self) -> str:
        return f"<Reservation for {self.head!r}: {len(self._members)} passed>"
