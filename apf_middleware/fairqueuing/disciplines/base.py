"""The interface of disciplines: the rule that picks the queue to serve next.

A queue set calls a method of its discipline for each event of its queues, and `pick` to choose the next queue. The
discipline creates queues of its own class (`open_queue`), which have the meters that it needs.

===============  ====================================================================================================
``advance``      time passes while nothing else happens
``arrive``       a ticket is about to join its queue
``rejoin``       a ticket whose gates have opened is put back before the tickets that arrived after it
``serve``        a ticket arrives and is seated in the same step, because no other waits and it fits
``leave``        a ticket has left its queue unserved
``reweigh``      the weight of a queue has changed
``forget_lead``  a queue is about to be served out of turn
``dispatch``     a queue's oldest ticket has left it for its seats
``settle``       a ticket has finished, and its actual duration is known; unless it lingers, its seats are free as well
``vacate``       the linger of a ticket has ended, and its seats are free
``catch_up``     tickets have arrived, run and ended without a call for each of these events
``resize``       the level's concurrency has changed
``follow``       the level's seats are steered: its concurrency is only their upper bound
``close``        an idle queue has been removed
``pick``         a seat may be free: choose the queue to serve next
===============  ====================================================================================================

The three solutions of KEP-1040 implement this interface. `equal-serial` needs only the sum of all demands. The max-min
disciplines need the demand of each queue, which changes with ``arrive``, ``leave``, ``settle`` and ``vacate``. They
also compute the events of their fluid model, in ``advance``.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from apf_middleware.compilation import mypyc_attr
from apf_middleware.copying import get_state, set_state
from apf_middleware.fairqueuing.ticket import Queue, Ticket

__all__ = ["Discipline"]

QueueT = TypeVar("QueueT", bound=Queue)


@mypyc_attr(allow_interpreted_subclasses=True)
class Discipline(ABC, Generic[QueueT]):
    """The rule that picks the queue of a queue set to serve next."""

    __slots__ = ()

    name: ClassVar[str]

    is_restless: ClassVar[bool] = False
    """True if the next queue can change without an event, because time has passed."""

    is_weighted: ClassVar[bool] = False
    """True if queues are served in proportion to their weights."""

    is_guaranteed: ClassVar[bool] = True
    """True if a queue that has fallen too far behind its fair share is served out of turn (see `guarantee`)."""

    @abstractmethod
    def open_queue(self, index: int) -> QueueT:
        """Return a new, idle queue."""
        raise NotImplementedError

    def begin(self, now: int) -> None:
        """Set the time at which the level begins, for disciplines that use the times of tickets."""

    @abstractmethod
    def advance(self, elapsed_ns: int, demand: int) -> None:
        """Advance the time, in which ``demand`` has been the sum of the seats in use and the seats waited for."""
        raise NotImplementedError

    @abstractmethod
    def arrive(self, queue: QueueT, ticket: Ticket) -> None:
        """Note that ``ticket`` is about to be appended to ``queue``."""
        raise NotImplementedError

    def rejoin(self, queue: QueueT, ticket: Ticket) -> None:
        """Note that ``ticket``, which has arrived earlier, was inserted before later tickets of ``queue``.

        The ticket gets no more credit than a new one, and the tickets behind it must not lose theirs.
        """

    @abstractmethod
    def serve(self, queue: QueueT, ticket: Ticket) -> None:
        """Do ``arrive`` and ``dispatch`` in one step, for a ticket that fits while no other waits."""
        raise NotImplementedError

    @abstractmethod
    def leave(self, queue: QueueT, ticket: Ticket, *, was_oldest: bool) -> None:
        """Note that ``ticket`` has been removed from ``queue`` unserved."""
        raise NotImplementedError

    @abstractmethod
    def dispatch(self, queue: QueueT, ticket: Ticket) -> None:
        """Note that ``ticket``, the oldest, has been removed from ``queue`` and seated."""
        raise NotImplementedError

    def forget_lead(self, queue: QueueT) -> None:
        """Set the meter of ``queue``, which is served out of turn, to that of the next queue if its own is ahead."""

    def reweigh(self, queue: QueueT, weight: int) -> None:
        """Set the weight of ``queue``; by default do nothing, because all queues have the same weight."""

    @abstractmethod
    def settle(self, queue: QueueT, ticket: Ticket, duration_ns: int) -> None:
        """Note that ``ticket`` has run for ``duration_ns``; ``queue`` no longer counts it as executing."""
        raise NotImplementedError

    @abstractmethod
    def vacate(self, queue: QueueT, ticket: Ticket) -> None:
        """Note that the linger of ``ticket`` has ended, and its seats are free."""
        raise NotImplementedError

    @property
    def is_at_rest(self) -> bool:
        """Return whether tickets that arrive in the idle level and run alone may be accounted for later, by `catch_up`.

        They may not while the model of the discipline still contains requests that have really ended.
        """
        return False

    def catch_up(self, queue: QueueT) -> None:
        """Account for tickets of one seat each that ran one by one; the last was in ``queue``."""

    @abstractmethod
    def resize(self, concurrency: int) -> None:
        """Change the seats of the level."""
        raise NotImplementedError

    def follow(self) -> None:
        """Run the meters at the number of seats in use, because the seats of the level change at any time.

        The ``demand`` of `advance` is then the number of seats in use. This is called once, at the beginning.
        """

    @abstractmethod
    def close(self, queue: QueueT, *, closing_up: bool) -> None:
        """Remove ``queue``; if ``closing_up``, the queues behind it have moved up by one index."""
        raise NotImplementedError

    @abstractmethod
    def pick(self, widest: int | None = None) -> int:
        """Return the index of the next queue to serve its oldest ticket; raise LookupError if no ticket waits.

        With ``widest``, only consider queues with an oldest ticket that is no wider than that.
        """
        raise NotImplementedError

    @abstractmethod
    def meters(self) -> dict[str, int]:
        """Return the discipline's own numbers, by name, for dumps and metrics."""
        raise NotImplementedError

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError if the data of the discipline are inconsistent."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, object]:
        return get_state(self)

    def __setstate__(self, state: dict[str, object]) -> None:
        set_state(self, state)
