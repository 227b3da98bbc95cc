"""A level's queues as a deck: opened, dealt to flows, and closed when there are more than desired.

The deck may be larger than desired for a while: queues beyond the desired number get no new tickets, and go when they
are idle. Upstream instead removes any queue that runs empty while there are too many, and moves those behind it up, so
that flows find themselves in other queues; ``strict_upstream`` does the same.

Where queues are exact, the deck is what flows share that have no place of their own (see `places`); the places' queues
stand behind it.
"""

from collections.abc import Iterator
from typing import Any, Final

from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.places import Places
from apf_middleware.fairqueuing.queue import Queue
from apf_middleware.fairqueuing.settings import QueueSetSettings

__all__ = ["Deck"]

_CLOSED: Final = Queue(-1)  # holds the place of a queue that is gone while a later one is still there
_HANDS_KEPT: Final = 8192  # flows whose hands are remembered: whoever invents flows makes it no larger


class Deck:
    """The queues of one queue set. ``choices`` counts how often a queue was chosen.

    It has to be told who leaves a queue (`leave`) only while it ``is_watchful``.
    """

    __slots__ = (
        "_dealer",
        "_discipline",
        "_hand_size",
        "_hands",
        "_strict",
        "choices",
        "desired",
        "is_overfull",
        "is_watchful",
        "places",
        "queues",
    )

    desired: int
    _hand_size: int

    def __init__(self, discipline: Discipline[Any], settings: QueueSetSettings, *, strict: bool) -> None:
        self._discipline = discipline
        self._strict = strict
        self._hands: dict[int, list[Queue]] = {}
        self.queues: list[Queue] = []
        self.places: Places | None = None
        self.choices: int = 0
        self.resize(settings)

    def __iter__(self) -> Iterator[Queue]:
        return (queue for queue in self.queues if queue is not _CLOSED)

    def choose(self, entropy: int, waiting: int) -> Queue:
        """The queue for the next ticket of this flow: its own, or the one of its hand with the least waiting work.

        The hand is gone through from another card each time, so that equals take turns. ``waiting`` is how many tickets
        wait in all queues together: if none does, there is nothing to compare.
        """
        places = self.places
        if places is not None:
            queue = places.own.get(entropy) or places.find(entropy)
            if queue is not None:
                self.choices += 1
                return queue
        hand = self._hands.get(entropy)
        if hand is None:
            hand = self._deal(entropy)
        start = self.choices % self._hand_size
        self.choices += 1
        best = hand[start]
        if waiting:
            least = best.waiting_work
            for queue in hand[start + 1 : start + self._hand_size]:
                work = queue.waiting_work
                if work < least:
                    best = queue
                    least = work
        if places is not None:
            places.receive(entropy, best)
        return best

    def choose_again(self, entropy: int, times: int) -> Queue:
        """What the last of so many calls of `choose` would have returned, with nobody waiting."""
        self.choices += times - 1
        return self.choose(entropy, 0)

    def _deal(self, entropy: int) -> list[Queue]:
        """A hand of queues, twice in a row so that going round needs no turning back."""
        assert self._dealer is not None, "nobody chooses a queue where there are none"
        hand = list(map(self.queues.__getitem__, self._dealer.deal(entropy)))
        if len(self._hands) >= _HANDS_KEPT:
            self._hands.clear()
        self._hands[entropy] = hand = hand * 2
        return hand

    def resize(self, settings: QueueSetSettings) -> None:
        """Deal from as many queues as ``settings`` say, and open those that are missing."""
        most = self.places.most if self.places else 0
        if self.queues and (settings.queues, settings.hand_size, settings.exact) == (
            self.desired,
            self._hand_size,
            most,
        ):
            return  # hands stay remembered when only the seats change, as they do all the time
        self.desired = settings.queues
        self._dealer = settings.dealer()
        self._hand_size = settings.hand_size
        self._hands.clear()
        queues = self.queues
        end = self.desired + settings.exact
        for index in range(min(end, len(queues))):
            if queues[index] is _CLOSED:
                queues[index] = self._discipline.open_queue(index)
        queues.extend(self._discipline.open_queue(index) for index in range(len(queues), self.desired))
        if settings.exact:
            self.places = self.places or Places(self._discipline, queues)
            self.places.resize(self.desired, settings.exact)
        elif self.places is not None:
            self.places.close()
            self.places = None
        self._take_stock()

    def _take_stock(self) -> None:
        self.is_overfull: bool = len(self.queues) > self._end
        self.is_watchful: bool = self.is_overfull or self.places is not None

    @property
    def _end(self) -> int:
        """The index after the last queue that is to stay."""
        return self.places.end if self.places else self.desired

    def surplus(self) -> list[Queue]:
        """Idle queues that are to go although nothing happens in them; upstream leaves them."""
        if self._strict:
            return []
        return [queue for queue in self.queues[self._end :] if queue is not _CLOSED and queue.is_idle]

    def leave(self, queue: Queue, entropy: int) -> None:
        """A ticket of this flow is gone from ``queue``."""
        places = self.places
        if places is not None and not queue.is_listed:
            places.leave(queue, entropy)
        if self.is_overfull:
            self.close(queue)

    def close(self, queue: Queue) -> None:
        """Remove ``queue`` if it is superfluous and has nothing to do."""
        closes_up = self._strict and self.places is None
        if self._close_up(queue) if closes_up else self._close_surplus(queue):
            self._discipline.close(queue, closing_up=closes_up)
            self._take_stock()

    def _close_surplus(self, queue: Queue) -> bool:
        """A queue goes when it is one of the surplus and idle; the others stay where they are."""
        queues, index = self.queues, queue.index
        if index < self._end or not queue.is_idle:
            return False
        if self.places is not None:
            self.places.forget(queue)
        queues[index] = _CLOSED
        while queues and queues[-1] is _CLOSED:
            queues.pop()
        return True

    def _close_up(self, queue: Queue) -> bool:
        """As upstream: any queue goes, though its seats may linger, and those behind it move up."""
        index = queue.index
        if (
            queue.length
            or queue.executing
            or queue.parked
            or index >= len(self.queues)
            or self.queues[index] is not queue
        ):
            return False  # the last two: an earlier linger of this queue has already removed it
        del self.queues[index]
        for other in self:
            if other.index > index:
                other.index -= 1
        self._hands.clear()
        return True

    def check(self) -> None:
        """Raise AssertionError where a queue isn't where it says it is."""
        for index, queue in enumerate(self.queues):
            if queue is _CLOSED:
                assert index >= self._end, f"queue {index} of {self._end} is missing"
            else:
                assert queue.index == index, f"{queue!r} stands at {index}"
        assert not self.surplus(), f"superfluous and idle: {self.surplus()!r}"
        if self.places is not None:
            self.places.check()

    def __repr__(self) -> str:
        places = f", {self.places!r}" if self.places else ""
        return f"<Deck of {sum(1 for _ in self)} queues, {self.desired} desired{places}>"
