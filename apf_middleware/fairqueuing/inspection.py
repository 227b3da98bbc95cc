"""Looking at a queue set: the frozen picture of it, and whether what it keeps adds up.

Apart from the queue set because nobody who reads how requests are seated has to read this, and the other way round.
"""

from typing import TYPE_CHECKING

from apf_middleware.snapshots import QueueSetSnapshot

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.queueset import QueueSet
    from apf_middleware.fairqueuing.ticket import Ticket

__all__ = ["check_queues", "check_seats", "check_turn", "picture"]


def picture(queueset: "QueueSet", *, now: int, lingering: int) -> QueueSetSnapshot:
    """The queue set as it is ``now``, when so many are ``lingering``."""
    return QueueSetSnapshot(
        now=now,
        concurrency=queueset.concurrency,
        desired_queues=queueset.deck.desired,
        discipline=queueset.discipline.name,
        meters=queueset.discipline.meters(),
        is_quiescing=queueset.is_quiescing,
        waiting=queueset.waiting,
        seats_waiting=queueset.seats_waiting,
        executing=queueset.executing,
        lingering=lingering,
        seats_in_use=queueset.seats_in_use,
        dispatched=queueset.dispatched,
        rejected={reason.value: number for reason, number in queueset.rejected.items()},
        no_accommodation=queueset.no_accommodation,
        queues=tuple(queue.snapshot() for queue in queueset.deck if not queue.is_idle),
    )


def check_queues(queueset: "QueueSet") -> None:
    """Raise AssertionError where deck, discipline, queues and sums contradict each other."""
    queueset.deck.check()
    queueset.discipline.check()
    if queueset.guarantee is not None and queueset.guarantee.is_tracking:
        queueset.guarantee.check()
    queues = list(queueset.deck)
    for queue in queues:
        queue.check()
    assert queueset.waiting == sum(queue.length for queue in queues), "tickets waiting"
    assert queueset.parked == sum(queue.parked for queue in queues), "parked tickets"
    assert queueset.seats_waiting == sum(ticket.width for queue in queues for ticket in queue), "seats waiting"


def check_turn(queueset: "QueueSet") -> "Ticket | None":
    """Whose turn it is; AssertionError where the discipline names a queue where nobody waits, or forgets one."""
    try:
        oldest = queueset.next_queue().oldest
    except LookupError:
        assert not queueset.waiting, f"the discipline forgets who waits in {queueset!r}"
        return None
    assert oldest is not None, f"the discipline picks a queue where nobody waits in {queueset!r}"
    return oldest


def check_seats(queueset: "QueueSet", queueless: int, phantom: int) -> None:
    """Raise AssertionError where the seats in use aren't those of the queues and of tickets without a queue."""
    assert queueset.seats_in_use == sum(queue.seats_in_use for queue in queueset.deck) + queueless, "seats"
    assert not phantom, "phantom seats"
