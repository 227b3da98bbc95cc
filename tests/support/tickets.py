"""Tickets, and the smallest queue set for them."""

from apf_middleware.fairqueuing import QueueSetSettings, Ticket, Work

ONE_QUEUE = QueueSetSettings(1, queues=1, hand_size=1, queue_length_limit=5)


def ticket(entropy: int = 0, work: Work | None = None) -> Ticket:
    return Ticket(f"flow {entropy}", entropy, work or Work())
