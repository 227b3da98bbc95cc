"""Who passes a wide ticket while seats are saved up for it: the search, in one queue set or among levels.

What may pass, and for how long, is said by `reservation`. Who passes is the one whose turn comes first among those that
fit into the free seats, so the discipline goes on dividing seats among those who can use them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.serving import Serving
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["fill_behind", "find_behind"]


def find_behind(queueset: "Serving", head: "Ticket", free: int) -> "Ticket | None":
    """Who may be seated on ``free`` seats before ``head``, for which they are too few."""
    if not (queueset.rounds and queueset.lets_pass(head, queueset.rounds)):
        return None
    try:
        return queueset.deck.queues[queueset.discipline.pick(free)].oldest
    except LookupError:
        return None


def fill_behind(queueset: "Serving", now: int, head: "Ticket") -> "list[Ticket]":
    """Seat others before ``head``, as far as they may pass; who was seated."""
    seated: list[Ticket] = []
    while queueset.seats_in_use < queueset.concurrency:
        ticket = find_behind(queueset, head, queueset.concurrency - queueset.seats_in_use)
        if ticket is None:
            break
        if queueset.gatekeeper is not None and not queueset.gatekeeper.admits(now, ticket):
            continue  # parked or refused, and so in no queue any more
        queueset.seat_head(now, ticket)
        queueset.reservation.let_pass(ticket, own=True)
        seated.append(ticket)
    return seated
