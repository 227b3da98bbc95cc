"""What `Guarantee` knows of one queue: the service that it lacks."""

from apf_middleware.fairqueuing.queue_heap import QueueHeap  # noqa: TC001 - loaded anyway
from apf_middleware.fairqueuing.queue_share import Share

__all__ = ["ServiceMeter"]


class ServiceMeter(Share):
    """The demand of one queue, and the service that the queue lacks. The class `Guarantee` updates these values.

    ``service`` is the service of the queue up to ``since``, when its seats in use changed last, in seat-nanoseconds,
    less what was held and not billed; only differences of its values are used.

    The other values are valid while requests wait in the queue, and count from the beginning of this wait. ``r`` is the
    integral of the fair share over time. Its unit, the *grain*, is 2**-10 seat-nanoseconds (see `guarantee`).

    - ``least``: the smallest value so far of ``r`` minus the service, in grains
    - ``noted``: the number of entries of the `RiseLog` that ``least`` takes into account
    - ``debt``: the work that was billed beyond what the queue really held, in grains
    - ``listed``: the value of ``r`` that decides the queue's place in the order of the waiting queues
    - ``heap``: the heap on which the queue is listed; None if it is in the order in which queues began to wait
    """

    __slots__ = (
        "debt",
        "heap",
        "least",
        "listed",
        "noted",
        "service",
        "since",
    )

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.service: int = 0
        self.since: int = 0
        self.least: int = 0
        self.noted: int = 0
        self.listed: int = 0
        self.heap: QueueHeap | None = None
        self.debt: int = 0
