"""The queues of a level: opened, dealt to flows, and closed when there are more than desired.

**Deck.** A flow's hash deals a hand of queues from the deck (see `shuffle.Dealer`), and a ticket joins the queue of its
hand with the least waiting work. The deck may be larger than desired for a while: queues beyond the desired number get
no new tickets, and are removed when they are idle. Kubernetes instead removes any queue that becomes empty while there
are too many, and moves the queues behind it up, so flows get other queues; ``strict_upstream`` does the same.

**Exact queues.** Shuffle sharding makes it unlikely that a light flow shares all its queues with heavy ones, but a
heavy flow has as many turns as its hand has queues. If each flow has a queue of its own, nothing depends on chance and
each flow has one turn. There can't be a queue for every flow that ever arrives, so there is a bounded number of
*places* for such queues:

* A new flow gets a queue in a free place, or else in the place of an idle queue. It keeps the place while it is idle,
  until another flow needs it.
* If the queues in all places are busy, a new flow becomes a *guest*: it gets the shared queue of its hand that has the
  least waiting work, and keeps it as long as one of its requests waits, runs or lingers. So a guest has one queue at a
  time, too, and its requests stay in order. After that it counts as a new flow.

One list contains the shared queues, and after them the exact ones. An exact queue that becomes idle is added to a list
of idle queues, unless it is there already; before its place is given to another flow, the deck checks that it is still
idle. So every step costs O(1), amortised. A flow is identified by its 64 bits of entropy.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.queueset_settings import QueueSetSettings
from apf_middleware.fairqueuing.ticket import Queue

__all__ = ["Deck", "ExactQueues"]

_CLOSED: Final = Queue(-1)  # fills the place of a queue that is gone while a later one is still there
_HANDS_KEPT: Final = 8192  # the number of cached hands; it is bounded because a client can invent any number of flows


class _Guest:
    """A busy flow without a queue of its own: the queue that it shares, and how many of its tickets are there."""

    __slots__ = ("queue", "tickets")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.tickets = 1


class ExactQueues:
    """At most ``most`` queues with one flow each, in the list ``queues`` from index ``first`` on.

    ``own`` holds the queue of each flow that has one.
    """

    __slots__ = ("_discipline", "_guests", "_idle", "_queues", "first", "most", "own")

    def __init__(self, discipline: Discipline[Any], queues: list[Queue]) -> None:
        self._discipline = discipline
        self._queues = queues
        self._guests: dict[int, _Guest] = {}
        self._idle: deque[Queue] = deque()
        self.own: dict[int, Queue] = {}
        self.first: int = 0
        self.most: int = 0

    @property
    def end(self) -> int:
        """The index after the last place."""
        return self.first + self.most

    def resize(self, first: int, most: int) -> None:
        """Move the places, or change their number; busy flows keep their queues."""
        self.first, self.most = first, most
        # The places may have moved, so the list of idle queues is made again.
        self._unlist()
        for index, queue in enumerate(self._queues):
            if index < first:  # shared from now on
                self.forget(queue)
            elif queue.index == index:
                # otherwise the place is closed, and `_CLOSED` stands in it
                self._list(queue)

    def close(self) -> None:
        """Give up all places."""
        self._unlist()
        for queue in self._queues:
            self.forget(queue)

    def _unlist(self) -> None:
        for queue in self._idle:
            queue.is_listed = False
        self._idle.clear()

    def find(self, entropy: int) -> Queue | None:
        """Return the queue for a flow that has none of its own; None if it must become a guest."""
        guest = self._guests.get(entropy)
        if guest is not None:
            guest.tickets += 1
            return guest.queue
        queue = self._open() if len(self._queues) < self.end else self._reopen()
        if queue is not None:
            queue.owner = entropy
            self.own[entropy] = queue
        return queue

    def _open(self) -> Queue:
        queue: Queue = self._discipline.open_queue(len(self._queues))
        self._queues.append(queue)
        return queue

    def _reopen(self) -> Queue | None:
        """Replace an idle queue by a new one, without its meters, and return that; return None if no queue is idle."""
        idle, queues = self._idle, self._queues
        while idle:
            queue = idle.popleft()
            queue.is_listed = False
            index = queue.index
            # since it was listed, it may have received a ticket, or the places may have moved
            if queue.is_idle and self.first <= index < self.end and queues[index] is queue:
                self.forget(queue)
                self._discipline.close(queue, closing_up=False)
                queues[index] = self._discipline.open_queue(index)
                return queues[index]
        return None

    def receive(self, entropy: int, queue: Queue) -> None:
        """Make the flow a guest in ``queue``."""
        self._guests[entropy] = _Guest(queue)

    def leave(self, queue: Queue, entropy: int) -> None:
        """Note that a ticket of this flow has left ``queue``."""
        if queue.owner != entropy:
            guest = self._guests.get(entropy)
            if guest is not None and guest.queue is queue:  # the ticket may be from before the places were moved
                guest.tickets -= 1
                if not guest.tickets:
                    del self._guests[entropy]
        if queue.index >= self.first:
            self._list(queue)

    def _list(self, queue: Queue) -> None:
        if not queue.is_listed and queue.is_idle:
            queue.is_listed = True
            self._idle.append(queue)

    def forget(self, queue: Queue) -> None:
        """Note that ``queue`` doesn't belong to a flow any more."""
        if queue.owner is not None:
            del self.own[queue.owner]
            queue.owner = None

    def check(self) -> None:
        """Raise AssertionError if a place is lost, or a guest isn't where it should be."""
        listed = set(map(id, self._idle))
        for index in range(self.first, len(self._queues)):
            queue = self._queues[index]
            if queue.index != index:
                continue  # there is none
            assert queue.is_listed is (id(queue) in listed), f"whether {queue!r} is listed"
            assert queue.is_listed or not queue.is_idle, f"{queue!r} is idle, and its place is lost"
            assert queue.owner is None or self.own[queue.owner] is queue, f"the owner of {queue!r}"
        assert all(queue.owner == entropy for entropy, queue in self.own.items()), f"owners in {self!r}"
        for guest in self._guests.values():
            assert guest.tickets > 0, "a guest has tickets"
            assert not guest.queue.is_idle, f"a guest is in {guest.queue!r}"

    def __repr__(self) -> str:
        return (
            f"<ExactQueues: {len(self.own)} of {self.most} have owners, {len(self._idle)} listed, "
            f"{len(self._guests)} guests>"
        )


class Deck:
    """The queues of one queue set. ``choices`` counts how often a queue was chosen.

    While the deck ``is_watchful``, the queue set must report each ticket that has left a queue (`leave`).
    """

    __slots__ = (
        "_dealer",
        "_discipline",
        "_hand_size",
        "_hands",
        "_strict",
        "choices",
        "desired",
        "exact",
        "is_overfull",
        "is_watchful",
        "queues",
    )

    def __init__(self, discipline: Discipline[Any], settings: QueueSetSettings, *, strict: bool) -> None:
        self._discipline = discipline
        self._strict = strict
        self._hands: dict[int, list[Queue]] = {}
        self.queues: list[Queue] = []
        self.exact: ExactQueues | None = None
        self.choices: int = 0
        self.desired: int = 0
        self._hand_size = 0
        self.resize(settings)

    def __iter__(self) -> Iterator[Queue]:
        return (queue for queue in self.queues if queue is not _CLOSED)

    def choose(self, entropy: int, waiting: int) -> Queue:
        """Return the queue for the next ticket of this flow: its own, or that of its hand with the least waiting work.

        Each search of a hand begins at another queue, so that queues with the same work take turns. ``waiting`` is the
        number of tickets that wait in all queues: if it is 0, there is nothing to compare.
        """
        exact = self.exact
        if exact is not None:
            queue = exact.own.get(entropy)
            if queue is None:
                queue = exact.find(entropy)
            if queue is not None:
                self.choices += 1
                return queue
        hand = self._hands.get(entropy)
        if hand is None:
            hand = self._deal(entropy)
        best = start = self.choices % self._hand_size
        self.choices += 1
        if waiting and (least := hand[start].waiting_work):
            for place in range(start + 1, start + self._hand_size):
                work = hand[place].waiting_work
                # as upstream, the first of equal queues is chosen
                if work < least:
                    best = place
                    if not work:
                        break
                    least = work
        queue = hand[best]
        if exact is not None:
            exact.receive(entropy, queue)
        return queue

    def choose_again(self, entropy: int, times: int) -> Queue:
        """Return the same as the last of ``times`` calls of `choose` while no ticket waits."""
        self.choices += times - 1
        return self.choose(entropy, 0)

    def _deal(self, entropy: int) -> list[Queue]:
        """Return the queues of the flow's hand twice in a row, so that from any of them on there is the whole hand."""
        assert self._dealer is not None, "there are queues to choose from"
        queues = self.queues
        hand = [queues[card] for card in self._dealer.deal(entropy)]
        if len(self._hands) >= _HANDS_KEPT:
            self._hands.clear()
        self._hands[entropy] = hand = hand * 2
        return hand

    def resize(self, settings: QueueSetSettings) -> None:
        """Deal from as many queues as ``settings`` require, and open those that are missing."""
        most = self.exact.most if self.exact else 0
        if self.queues and (settings.queues, settings.hand_size, settings.exact) == (
            self.desired,
            self._hand_size,
            most,
        ):
            return  # only the seats have changed, which happens often: the hands stay cached
        self.desired = settings.queues
        self._dealer = settings.dealer()
        self._hand_size = settings.hand_size
        self._hands.clear()
        queues = self.queues
        end = self.desired + settings.exact
        for index in range(min(end, len(queues))):
            # it was closed while the deck was larger than desired
            if queues[index] is _CLOSED:
                queues[index] = self._discipline.open_queue(index)
        queues.extend(self._discipline.open_queue(index) for index in range(len(queues), self.desired))
        if settings.exact:
            self.exact = self.exact or ExactQueues(self._discipline, queues)
            self.exact.resize(self.desired, settings.exact)
        elif self.exact is not None:
            self.exact.close()
            self.exact = None
        self._take_stock()

    def _take_stock(self) -> None:
        self.is_overfull: bool = len(self.queues) > self._end
        self.is_watchful: bool = self.is_overfull or self.exact is not None

    @property
    def _end(self) -> int:
        """The index after the last queue that isn't superfluous."""
        return self.exact.end if self.exact else self.desired

    def surplus(self) -> list[Queue]:
        """Return the superfluous queues that are idle already; without exact ones none if strict, as in Kubernetes."""
        if self._strict and self.exact is None:
            return []
        return [queue for queue in self.queues[self._end :] if queue is not _CLOSED and queue.is_idle]

    def leave(self, queue: Queue, entropy: int) -> None:
        """Note that a ticket of this flow has left ``queue``."""
        if queue.length and queue.owner == entropy:
            return  # the flow keeps its queue, which is not idle
        exact = self.exact
        # Shared queues, which guests use, are never listed. A queue that is listed already stays listed.
        if exact is not None and not queue.is_listed:
            exact.leave(queue, entropy)
        if self.is_overfull:
            self.close(queue)

    def close(self, queue: Queue) -> None:
        """Remove ``queue`` if it is superfluous and not used any more."""
        # exact queues, which Kubernetes doesn't have, must keep their places
        closes_up = self._strict and self.exact is None
        if self._close_up(queue) if closes_up else self._close_surplus(queue):
            self._discipline.close(queue, closing_up=closes_up)
            self._take_stock()

    def _close_surplus(self, queue: Queue) -> bool:
        """Remove ``queue`` if it is superfluous and idle; the others keep their index."""
        queues, index = self.queues, queue.index
        if index < self._end or not queue.is_idle:
            return False
        if self.exact is not None:
            self.exact.forget(queue)
        queues[index] = _CLOSED
        # only the last ones can be dropped, because queues, hands and disciplines refer to indices
        while queues and queues[-1] is _CLOSED:
            queues.pop()
        return True

    def _close_up(self, queue: Queue) -> bool:
        """Remove ``queue`` as Kubernetes does, even if its seats linger, and move the queues behind it up."""
        index = queue.index
        if (
            queue.length
            or queue.executing
            or queue.parked
            or index >= len(self.queues)
            or self.queues[index] is not queue
        ):
            return False  # an earlier linger of this queue may have removed it already
        del self.queues[index]
        for other in self:
            if other.index > index:
                other.index -= 1
        # hands are dealt by index, and the queues have moved
        self._hands.clear()
        return True

    def check(self) -> None:
        """Raise AssertionError if a queue isn't where it should be, or is inconsistent."""
        for index, queue in enumerate(self.queues):
            if queue is _CLOSED:
                assert index >= self._end, f"queue {index} of {self._end} is missing"
            else:
                assert queue.index == index, f"{queue!r} is at index {index}"
                queue.check()
        assert not self.surplus(), f"superfluous and idle: {self.surplus()!r}"
        if self.exact is not None:
            self.exact.check()

    def __repr__(self) -> str:
        exact = f", {self.exact!r}" if self.exact else ""
        return f"<Deck of {sum(1 for _ in self)} queues, {self.desired} desired{exact}>"
