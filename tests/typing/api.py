"""The public API as a typing specification: checked by mypy, never run."""

from collections.abc import Sequence
from typing import assert_type

from apf_middleware.fairqueuing import EqualSerial, QueueSet, QueueSetSettings, Reason, Ticket, Work, flow_hash
from apf_middleware.testing import Call, World

settings = QueueSetSettings(10, queues=64, hand_size=6, queue_length_limit=50)
queueset = QueueSet(settings, discipline=EqualSerial, strict_upstream=False)

ticket = Ticket("alice", flow_hash("global-default", "alice"), Work(seats=2, final_seats=1, linger_ns=5))
assert_type(queueset.arrive(1, ticket), Sequence[Ticket])
assert_type(queueset.abandon(2, ticket, Reason.CANCELLED), Sequence[Ticket])
assert_type(queueset.release(3, ticket), Sequence[Ticket])
assert_type(queueset.reconfigure(4, QueueSetSettings.without_queues(3)), Sequence[Ticket])
assert_type(queueset.tick(5), Sequence[Ticket])
assert_type(queueset.next_event_at(), int | None)
assert_type(ticket.reason, Reason | None)
assert_type(queueset.rejected[Reason.QUEUE_FULL], int)


class WokenTicket(Ticket):
    """A ticket may carry what is the caller's own."""

    __slots__ = ("wake",)


queueset.arrive(6, WokenTicket("bob", 2, Work()))

world = World(queueset)
world.arrive_at(7, Call("carol", 3, Work(), duration_ns=10))
