"""One level of a discipline, with a queue for each flow."""

from typing import Any

from apf_middleware.fairqueuing import Discipline, QueueSet, QueueSetSettings, Ticket, Work

__all__ = ["Level"]


class Level:
    """One queue set, a queue for each flow."""

    def __init__(self, discipline: type[Discipline[Any]], seats: int, flows: int) -> None:
        self.queueset = QueueSet(QueueSetSettings(seats, flows, 1, queue_length_limit=1_000), discipline=discipline)

    def arrive(self, now: int, flow: int, seats: int = 1) -> Ticket:
        ticket = Ticket(f"flow {flow}", flow, Work(seats))
        self.queueset.arrive(now, ticket)
        self.queueset.check()
        return ticket

    def release(self, now: int, ticket: Ticket) -> list[str]:
        seated = [other.flow for other in self.queueset.release(now, ticket)]
        self.queueset.check()
        return seated
