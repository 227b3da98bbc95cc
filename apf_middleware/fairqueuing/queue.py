"""A FIFO of waiting tickets and what its flow's running ones occupy.

The tickets are links of a chain, so that joining, being served and leaving from the middle cost the same however many
wait. A discipline adds its own meters in a subclass.
"""

from typing import TYPE_CHECKING

from apf_middleware.snapshots import QueueSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apf_middleware.fairqueuing.claim import Claim
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["Queue"]


class Queue:
    """One queue of a queue set; ``waiting_work`` is the sum of what its waiting tickets are expected to be.

    ``owner`` is the flow whose own queue it is, and ``is_listed`` says whether it may be another one's when it is idle
    (see `places`).
    """

    __slots__ = (
        "claim",
        "executing",
        "index",
        "is_listed",
        "length",
        "newest",
        "oldest",
        "owner",
        "parked",
        "seats_in_use",
        "waiting_work",
    )

    def __init__(self, index: int) -> None:
        self.index: int = index
        self.oldest: Ticket | None = None
        self.newest: Ticket | None = None
        self.length: int = 0
        self.parked: int = 0  # who waits for a gate: not in the chain, but still here
        self.waiting_work: int = 0
        self.executing: int = 0
        self.seats_in_use: int = 0  # the lingering included
        self.owner: int | None = None
        self.is_listed: bool = False
        self.claim: Claim | None = None  # while the guarantee keeps its demand

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, runs or lingers here."""
        return not (self.length or self.executing or self.seats_in_use or self.parked)

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return True  # an empty queue is still a queue

    def __iter__(self) -> "Iterator[Ticket]":
        ticket = self.oldest
        while ticket is not None:
            yield ticket
            ticket = ticket.newer

    def append(self, ticket: "Ticket") -> None:
        ticket.newer = None
        ticket.older = newest = self.newest
        if newest is None:
            self.oldest = ticket
        else:
            newest.newer = ticket
        self.newest = ticket
        self.length += 1
        self.waiting_work += ticket.total_work

    def insert(self, ticket: "Ticket") -> None:
        """Put one that was parked where it would stand if it had never left: before those who arrived after it."""
        newest = self.newest
        if newest is None or newest.arrived_at <= ticket.arrived_at:
            self.append(ticket)  # as it is of those who have only just come
            return
        older: Ticket | None = None
        newer = self.oldest
        while newer is not None and newer.arrived_at <= ticket.arrived_at:  # few are older than who was parked
            older, newer = newer, newer.newer
        assert newer is not None, "the newest came later"
        ticket.older, ticket.newer = older, newer
        newer.older = ticket
        if older is None:
            self.oldest = ticket
        else:
            older.newer = ticket
        self.length += 1
        self.waiting_work += ticket.total_work

    def shift(self, ticket: "Ticket") -> None:
        """As `remove`, for the oldest one."""
        newer = ticket.newer
        self.oldest = newer
        if newer is None:
            self.newest = None
        else:
            newer.older = None
            ticket.newer = None
        self.length -= 1
        self.waiting_work -= ticket.total_work

    def remove(self, ticket: "Ticket") -> None:
        """Take out one that waits here, from wherever it stands."""
        older, newer = ticket.older, ticket.newer
        if older is None:
            self.oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self.newest = older
        else:
            newer.older = older
        ticket.older = ticket.newer = None
        self.length -= 1
        self.waiting_work -= ticket.total_work

    def meters(self) -> dict[str, int]:
        """What a discipline keeps of this queue, by name."""
        return {}

    def snapshot(self, level: str = "") -> QueueSnapshot:
        """Return a frozen snapshot, as a queue of ``level``."""
        seats = width = 0
        if self.length:
            for ticket in self:
                seats += ticket.work.seats
                width += ticket.width
        return QueueSnapshot(
            level,
            self.index,
            self.length,
            self.parked,
            self.executing,
            self.seats_in_use,
            self.meters().get("next_dispatch_r"),
            seats,
            width,
            self.waiting_work,
        )

    def check(self) -> None:
        """Raise AssertionError where the chain and the sums disagree."""
        tickets = list(self)
        assert self.length == len(tickets), f"{self!r} has {len(tickets)} links"
        assert self.waiting_work == sum(ticket.total_work for ticket in tickets), f"waiting work of {self!r}"
        assert self.newest is (tickets[-1] if tickets else None), f"the end of {self!r}"
        assert all(ticket.queue is self and ticket.is_waiting for ticket in tickets), f"strangers in {self!r}"

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.index}: {self.length} waiting, {self.executing} executing, "
            f"{self.seats_in_use} seats in use>"
        )
