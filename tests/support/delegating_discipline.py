"""A discipline that passes every call on to another one, for tests that watch or change some of the calls.

The package's own disciplines can't be subclassed in the compiled build; `Discipline` can.
"""

from typing import Any, ClassVar

from apf_middleware.fairqueuing import Discipline, Ticket
from apf_middleware.fairqueuing.ticket import Queue

__all__ = ["DelegatingDiscipline"]


class DelegatingDiscipline(Discipline[Queue]):
    """Behaves as the discipline that a subclass names: ``class Watched(DelegatingDiscipline, of=EqualSerial)``."""

    made: ClassVar[type[Discipline[Any]]]

    def __init_subclass__(cls, *, of: type[Discipline[Any]] | None = None) -> None:
        if of is not None:
            cls.made = of
            cls.name, cls.is_restless, cls.is_guaranteed = of.name, of.is_restless, of.is_guaranteed
            cls.is_weighted = of.is_weighted

    def __init__(self, concurrency: int, guess_ns: int) -> None:
        make: Any = self.made
        self.inner: Discipline[Any] = make(concurrency, guess_ns)

    def open_queue(self, index: int) -> Queue:
        queue: Queue = self.inner.open_queue(index)
        return queue

    def begin(self, now: int) -> None:
        self.inner.begin(now)

    def advance(self, elapsed_ns: int, demand: int) -> None:
        self.inner.advance(elapsed_ns, demand)

    def arrive(self, queue: Queue, ticket: Ticket) -> None:
        self.inner.arrive(queue, ticket)

    def rejoin(self, queue: Queue, ticket: Ticket) -> None:
        self.inner.rejoin(queue, ticket)

    def serve(self, queue: Queue, ticket: Ticket) -> None:
        self.inner.serve(queue, ticket)

    def leave(self, queue: Queue, ticket: Ticket, *, was_oldest: bool) -> None:
        self.inner.leave(queue, ticket, was_oldest=was_oldest)

    def dispatch(self, queue: Queue, ticket: Ticket) -> None:
        self.inner.dispatch(queue, ticket)

    def forget_lead(self, queue: Queue) -> None:
        self.inner.forget_lead(queue)

    def settle(self, queue: Queue, ticket: Ticket, duration_ns: int) -> None:
        self.inner.settle(queue, ticket, duration_ns)

    def vacate(self, queue: Queue, ticket: Ticket) -> None:
        self.inner.vacate(queue, ticket)

    @property
    def is_at_rest(self) -> bool:
        return self.inner.is_at_rest

    def catch_up(self, queue: Queue) -> None:
        self.inner.catch_up(queue)

    def reweigh(self, queue: Queue, weight: int) -> None:
        self.inner.reweigh(queue, weight)

    def resize(self, concurrency: int) -> None:
        self.inner.resize(concurrency)

    def follow(self) -> None:
        self.inner.follow()

    def close(self, queue: Queue, *, closing_up: bool) -> None:
        self.inner.close(queue, closing_up=closing_up)

    def pick(self, widest: int | None = None) -> int:
        return self.inner.pick(widest)

    def meters(self) -> dict[str, int]:
        return self.inner.meters()

    def check(self) -> None:
        self.inner.check()
