"""The interface of disciplines: the rule that picks the queue to serve next.

A queue set calls its discipline for each event of its queues, with these meanings, and asks it one question (`pick`).
The discipline keeps the meters that it needs in queues of its own class (`open_queue`).

===============  ====================================================================================================
``advance``      time passes while nothing else happens
``arrive``       a ticket is about to join its queue
``rejoin``       a ticket that arrived earlier is put before those that arrived after it, when its gates have opened
``serve``        a ticket arrives and is seated in the same step, because no other waits and it fits
``leave``        a ticket has left its queue unserved
``forget_lead``  a queue is about to be served out of turn
``dispatch``     a queue's oldest ticket has left it for its seats
``settle``       a ticket has finished, and its actual duration is known; unless it lingers, its seats are free as well
``vacate``       the linger of a ticket has ended, and its seats are free
``catch_up``     tickets have come and gone without the single calls
``resize``       the level's concurrency has changed
``follow``       the level's seats are steered: its concurrency is only their upper bound
``close``        an idle queue has been removed
``pick``         the queue whose oldest ticket is next
===============  ====================================================================================================

The three solutions of KEP-1040 implement it. `equal-serial` needs only the sum of all demand. The max-min ones need
each queue's own demand, which changes with ``arrive``, ``leave``, ``settle`` and ``vacate``, and
events of their fluid model, which they catch up with in ``advance``.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from apf_middleware.fairqueuing.ticket import Queue, Ticket

__all__ = ["Discipline"]

QueueT = TypeVar("QueueT", bound=Queue)


class Discipline(ABC, Generic[QueueT]):
    """The rule that picks the queue of a queue set to serve next."""

    __slots__ = ()

    name: ClassVar[str]

    is_restless: ClassVar[bool] = False
    """Whether the next queue can change merely because time passes."""

    is_guaranteed: ClassVar[bool] = True
    """Whether a queue that has fallen too far behind its fair share is served out of turn (see `guarantee`)."""

    @abstractmethod
    def open_queue(self, index: int) -> QueueT:
        """Return a new, idle queue."""

    def begin(self, now: int) -> None:
        """Set the time at which the level begins, for disciplines that use the times of tickets."""

    @abstractmethod
    def advance(self, elapsed_ns: int, demand: int) -> None:
        """Let time pass, with ``demand`` seats taken or waited for in all queues together."""

    @abstractmethod
    def arrive(self, queue: QueueT, ticket: Ticket) -> None:
        """Note that ``ticket`` is about to be appended to ``queue``."""

    def rejoin(self, queue: QueueT, ticket: Ticket) -> None:
        """Note that ``ticket``, which has arrived earlier, was inserted before later tickets of ``queue``.

        It counts no more than a new ticket would, and must not cost those behind it what they are owed.
        """

    @abstractmethod
    def serve(self, queue: QueueT, ticket: Ticket) -> None:
        """Do ``arrive`` and ``dispatch`` in one step, for a ticket that fits while no other waits."""

    @abstractmethod
    def leave(self, queue: QueueT, ticket: Ticket, *, was_oldest: bool) -> None:
        """Note that ``ticket`` has been removed from ``queue`` unserved."""

    @abstractmethod
    def dispatch(self, queue: QueueT, ticket: Ticket) -> None:
        """Note that ``ticket``, the oldest, has been removed from ``queue`` and seated."""

    def forget_lead(self, queue: QueueT) -> None:
        """Give ``queue`` the meter of the queue that is next, if its own is later: it is served out of turn."""

    @abstractmethod
    def settle(self, queue: QueueT, ticket: Ticket, duration_ns: int) -> None:
        """Note that ``ticket`` has run for ``duration_ns``; ``queue`` no longer counts it as executing."""

    @abstractmethod
    def vacate(self, queue: QueueT, ticket: Ticket) -> None:
        """Note that the linger of ``ticket`` has ended, and its seats are free."""

    @property
    def is_at_rest(self) -> bool:
        """Return whether a level where nothing waits, runs or lingers has nothing to make up for in its model.

        Then tickets that come and go one by one may be accounted for later, by `catch_up`.
        """
        return False

    def catch_up(self, queue: QueueT, work: int, last_work: int) -> None:
        """Account for tickets served one by one while all was at rest: ``work`` in all, the last in ``queue``."""

    @abstractmethod
    def resize(self, concurrency: int) -> None:
        """Change the seats of the level."""

    def follow(self) -> None:
        """Let the meters run at the seats in use, because those of the level change at any time.

        The ``demand`` of `advance` is then that of the seats in use alone. This is called once, at the beginning.
        """

    @abstractmethod
    def close(self, queue: QueueT, *, closing_up: bool) -> None:
        """Remove ``queue``; if ``closing_up``, the queues behind it have moved up by one index."""

    @abstractmethod
    def pick(self, widest: int | None = None) -> int:
        """Return the index of the queue whose oldest ticket is next; raise LookupError if no ticket waits.

        With ``widest``, only queues whose oldest ticket is no wider count.
        """

    @abstractmethod
    def meters(self) -> dict[str, int]:
        """Return the discipline's own numbers, by name, for dumps and metrics."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError where the discipline's own data contradict each other."""
