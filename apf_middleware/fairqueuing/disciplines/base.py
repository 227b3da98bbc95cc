"""What a discipline is: the rule that picks which queue is served next.

A queue set tells its discipline everything that happens to its queues, in this order and with these meanings, and asks
it one question. The discipline keeps whatever meters it needs, in queues of a class of its own (`open_queue`).

=============  ======================================================================================================
``advance``    time passes while nothing else happens
``arrive``     a ticket is about to join its queue
``rejoin``     a ticket that has arrived is put before those who came after it: a gate had kept it aside meanwhile
``serve``      a ticket arrives and is to be seated in the same step, because nobody waits and it fits
``leave``      a ticket has left its queue unserved
``dispatch``   a queue's oldest ticket has left it for its seats
``settle``     a ticket has finished, and its real duration is known; unless it lingers, its seats are free as well
``vacate``     the linger of a ticket has ended, and its seats are free
``catch_up``   tickets have come and gone while the queue set wasn't told
``resize``     the level's concurrency is another one
``follow``     the level's seats are steered: its concurrency is only their upper bound
``close``      a queue is gone, and it was idle
``pick``       whose oldest ticket is next?
=============  ======================================================================================================

Behind this interface stand the three solutions of KEP-1040. `equal-serial` needs only the sum of all demand. The
max-min ones need each queue's own demand, which changes with ``arrive``, ``leave``, ``settle`` and ``vacate``, and
events of their virtual world, which they catch up with in ``advance``.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from apf_middleware.fairqueuing.ticket import Queue, Ticket

__all__ = ["Discipline"]

QueueT = TypeVar("QueueT", bound=Queue)


class Discipline(ABC, Generic[QueueT]):
    """Picks which queue of one queue set is served next."""

    __slots__ = ()

    name: ClassVar[str]

    is_restless: ClassVar[bool] = False
    """Whether the turn can pass to another queue by nothing but the passing of time."""

    is_guaranteed: ClassVar[bool] = True
    """Whether a queue that has fallen too far behind its fair share is served out of turn (see `guarantee`)."""

    @abstractmethod
    def open_queue(self, index: int) -> QueueT:
        """A new, idle queue."""

    def begin(self, now: int) -> None:
        """The level begins at ``now``, for disciplines that look at the times of tickets."""

    @abstractmethod
    def advance(self, elapsed_ns: int, demand: int) -> None:
        """Let time pass, with ``demand`` seats taken or waited for in all queues together."""

    @abstractmethod
    def arrive(self, queue: QueueT, ticket: Ticket) -> None:
        """``ticket`` is about to be appended to ``queue``."""

    def rejoin(self, queue: QueueT, ticket: Ticket) -> None:
        """``ticket``, of which `arrive` has told, was inserted before others of ``queue``: it came before them.

        It takes up no more than a newcomer would. Nor may it cost those behind it what they are owed.
        """

    @abstractmethod
    def serve(self, queue: QueueT, ticket: Ticket) -> None:
        """``arrive`` and ``dispatch`` in one step, for a ticket that finds nobody waiting and fits."""

    @abstractmethod
    def leave(self, queue: QueueT, ticket: Ticket, *, was_oldest: bool) -> None:
        """``ticket`` has been removed from ``queue`` unserved."""

    @abstractmethod
    def dispatch(self, queue: QueueT, ticket: Ticket) -> None:
        """``ticket``, the oldest, has been removed from ``queue`` and seated."""

    @abstractmethod
    def settle(self, queue: QueueT, ticket: Ticket, duration_ns: int) -> None:
        """``ticket`` has run for ``duration_ns``; ``queue`` no longer counts it as executing."""

    @abstractmethod
    def vacate(self, queue: QueueT, ticket: Ticket) -> None:
        """``ticket`` has lingered, and its seats are free."""

    @property
    def is_at_rest(self) -> bool:
        """Whether a level where nothing waits, runs or lingers has nothing to make up for in the virtual world.

        Then tickets that come and go one by one may be told later, by `catch_up`.
        """
        return False

    def catch_up(self, queue: QueueT, work: int, last_work: int) -> None:
        """Tickets were served and settled, each when all was at rest: ``work`` together, the last one in ``queue``."""

    @abstractmethod
    def resize(self, concurrency: int) -> None:
        """The level has ``concurrency`` seats from now on."""

    def follow(self) -> None:
        """Its seats vary from moment to moment: let the meters run at those in use, below the level's concurrency.

        The ``demand`` that `advance` is told is then that of the seats in use alone. Called once, in the beginning.
        """

    @abstractmethod
    def close(self, queue: QueueT, *, closing_up: bool) -> None:
        """``queue`` is gone; when ``closing_up``, the queues behind it have moved up by one index."""

    @abstractmethod
    def pick(self, widest: int | None = None) -> int:
        """The index of the queue whose oldest ticket is next; LookupError when nobody waits.

        With ``widest``, of those whose oldest ticket is no wider.
        """

    @abstractmethod
    def meters(self) -> dict[str, int]:
        """The discipline's own numbers, by name, for dumps and metrics."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError where the discipline's own data contradict each other."""
