"""Exact queues: one for each flow, as long as there are places for them.

Shuffle sharding makes it unlikely that a mouse shares all its queues with elephants, at the price that an elephant has
as many turns as its hand has cards. Where each flow has a queue of its own, nothing is left to chance and everybody has
one turn. There can't be a queue for everybody who ever comes, so there are places:

* A flow that comes is given a place that nobody has, or else one whose queue is idle; it gets a new queue there. It
  keeps its place when it is idle, until somebody else needs it.
* When all places are taken by flows that are at work, whoever comes is a *guest*: it goes to the queue with the least
  waiting work of a hand of shared queues, and stays with that queue as long as anything of it waits, runs or lingers.
  So a guest has one queue at a time too, and its requests stay in order. After that it is a flow that comes.

Queues that have become idle are listed, once each; whether one is idle still is looked at when it is needed. So every
step costs O(1), amortised. A flow is known by its 64 bits of entropy.
"""

from collections import deque
from typing import Any

from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.queue import Queue

__all__ = ["Places"]


class _Guest:
    """A flow at work that has no place: where it is, and how many of its tickets are there."""

    __slots__ = ("queue", "tickets")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.tickets = 0


class Places:
    """The places of one deck: in ``queues`` from ``first`` on, so many as ``most``; ``own`` tells who has which."""

    __slots__ = ("_discipline", "_guests", "_idle", "_queues", "first", "most", "own")

    first: int
    most: int

    def __init__(self, discipline: Discipline[Any], queues: list[Queue]) -> None:
        self._discipline = discipline
        self._queues = queues
        self._guests: dict[int, _Guest] = {}
        self._idle: deque[Queue] = deque()
        self.own: dict[int, Queue] = {}
        self.first = self.most = 0

    @property
    def end(self) -> int:
        """The index after the last place."""
        return self.first + self.most

    def resize(self, first: int, most: int) -> None:
        """The places are elsewhere, or others in number; who is at work keeps its queue."""
        self.first, self.most = first, most
        self._unlist()
        for index, queue in enumerate(self._queues):
            if index < first:  # shared from now on
                self.forget(queue)
            elif queue.index == index:
                self._list(queue)

    def close(self) -> None:
        """There are no places any more."""
        self._unlist()
        for queue in self._queues:
            self.forget(queue)

    def _unlist(self) -> None:
        for queue in self._idle:
            queue.is_listed = False
        self._idle.clear()

    def find(self, entropy: int) -> Queue | None:
        """The queue of a flow that has no place yet; None if it must be a guest, and has to be told where."""
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
        """A new queue where one is idle: what the old one still owes is none of the newcomer's business."""
        idle, queues = self._idle, self._queues
        while idle:
            queue = idle.popleft()
            queue.is_listed = False
            index = queue.index
            if queue.is_idle and self.first <= index < self.end and queues[index] is queue:
                self.forget(queue)
                self._discipline.close(queue, closing_up=False)
                queues[index] = self._discipline.open_queue(index)
                return queues[index]
        return None

    def receive(self, entropy: int, queue: Queue) -> None:
        """The flow is a guest in ``queue``."""
        self._guests[entropy] = guest = _Guest(queue)
        guest.tickets = 1

    def leave(self, queue: Queue, entropy: int) -> None:
        """A ticket of this flow is gone from ``queue``."""
        if queue.owner != entropy:
            guest = self._guests.get(entropy)
            if guest is not None and guest.queue is queue:  # it may be the flow's from before there were other places
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
        """Nobody's own queue is in this place any more."""
        if queue.owner is not None:
            del self.own[queue.owner]
            queue.owner = None

    def check(self) -> None:
        """Raise AssertionError where a place is lost, or a guest isn't where it should be."""
        listed = set(map(id, self._idle))
        for index in range(self.first, len(self._queues)):
            queue = self._queues[index]
            if queue.index != index:
                continue  # there is none
            assert queue.is_listed is (id(queue) in listed), f"whether {queue!r} is listed"
            assert queue.is_listed or not queue.is_idle, f"{queue!r} is idle, and nobody will have its place"
            assert queue.owner is None or self.own[queue.owner] is queue, f"the owner of {queue!r}"
        assert all(queue.owner == entropy for entropy, queue in self.own.items()), f"owners in {self!r}"
        for guest in self._guests.values():
            assert guest.tickets > 0, "a guest is there"
            assert not guest.queue.is_idle, f"a guest is in {guest.queue!r}"

    def __repr__(self) -> str:
        return (
            f"<{self.most} places: {len(self.own)} have owners, {len(self._idle)} listed, {len(self._guests)} guests>"
        )
