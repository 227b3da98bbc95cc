"""One level's queues and seats: who arrives is dealt a queue, waits for a turn, is seated, and gives the seats back.

Pure and synchronous. Time is the argument ``now`` (integer nanoseconds, never running backwards); every change returns
the tickets that it seated, and whoever called wakes them. Nothing runs by itself: `next_event_at` tells when seats that
linger come free, and any call at or after that time frees them first. The discipline keeps the meters that say whose
turn it is.

Upstream's known defects are corrected here. With ``strict_upstream`` they are reproduced, so that traces of the real
Kubernetes code replay to the last digit:

bounded queues   a queue is full at its limit, also while seats are free because a wide ticket is saving up for more
leaving seats    when a ticket leaves unserved, those that it stood before are seated
no phantom       seats that are cut from a ticket at dispatch don't count as demand for ever
surplus queues   superfluous queues go as soon as they are idle, however that came, and no other queue changes place
zero is zero     a level with no seats and no queues admits nobody
cut anywhere     final seats are cut to the level's seats without queues too
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from apf_middleware.exceptions import ClockError, InvalidValueError, TicketStateError, require_integer
from apf_middleware.fairqueuing.deck import Deck
from apf_middleware.fairqueuing.demand import Demand
from apf_middleware.fairqueuing.disciplines import Discipline, EqualSerial, UpstreamEqualSerial
from apf_middleware.fairqueuing.guarantee import Guarantee
from apf_middleware.fairqueuing.inspection import check_queues, check_seats, check_turn, picture
from apf_middleware.fairqueuing.queue import Queue
from apf_middleware.fairqueuing.serving import Serving
from apf_middleware.fairqueuing.settings import MAX_QUEUES, QueueSetSettings, require_settings
from apf_middleware.fairqueuing.ticket import Reason, Ticket, TicketState
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS, Work
from apf_middleware.snapshots import QueueSetSnapshot

__all__ = ["QueueSet"]

_NEW: Final = TicketState.NEW
_WAITING: Final = TicketState.WAITING
_SEATED: Final = TicketState.SEATED
_RELEASED: Final = TicketState.RELEASED

_GUESSED: Final = 101  # work is looked up for the widths that occur: upstream's estimates end at 100 seats
_NOBODY: Final[tuple[Ticket, ...]] = ()


class QueueSet(Serving):
    """The queues and seats of one level.

    ``discipline`` makes the discipline from concurrency and guess. ``guess_ns`` is what a request is taken to last
    until its duration is known. ``now`` is the time to begin with. With a ``ceiling`` the seats are steered: whoever
    shares them out among levels sets ``concurrency`` before each call, and the meters run at the seats in use; demand
    isn't kept then, for nothing follows from it.
    """

    __slots__ = (
        "_guessed",
        "_is_queuing",
        "_is_restless",
        "_limit",
        "_now",
        "deck",
        "demand",
        "discipline",
        "guess_ns",
        "is_closing",
        "is_quiescing",
        "is_steered",
        "room",
        "settings",
        "strict_upstream",
    )

    ceiling: int
    concurrency: int
    dispatched: int
    executing: int
    rounds: int
    seats_in_use: int
    seats_waiting: int
    waiting: int

    def __init__(
        self,
        settings: QueueSetSettings,
        *,
        discipline: Callable[[int, int], Discipline[Any]] = EqualSerial,
        guess_ns: int = DEFAULT_GUESS_NS,
        strict_upstream: bool = False,
        now: int = 0,
        ceiling: int | None = None,
    ) -> None:
        require_settings(settings)
        most = settings.concurrency if ceiling is None else require_integer("ceiling", ceiling, least=0)
        super().__init__(settings.concurrency, most, cuts=not settings.exempt, strict=strict_upstream)
        self.guess_ns: int = require_integer("guess_ns", guess_ns, least=1)
        self._now = require_integer("now", now)
        self.settings: QueueSetSettings = settings
        self.room: int = MAX_QUEUES  # in each queue, where what waits in all levels is bounded
        self._limit = settings.queue_length_limit
        self.rounds = 0 if strict_upstream else settings.backfill
        self.strict_upstream: bool = strict_upstream
        if strict_upstream and discipline is EqualSerial:
            discipline = UpstreamEqualSerial
        self.discipline: Discipline[Any] = discipline(most, guess_ns)
        self.discipline.begin(now)
        is_guaranteed = self.discipline.is_guaranteed and not (strict_upstream or settings.exempt)
        self.guarantee: Guarantee | None = Guarantee(most, now) if is_guaranteed else None
        self.is_steered: bool = ceiling is not None
        if self.is_steered:
            self.discipline.follow()
        self._is_restless = self.discipline.is_restless and settings.queues > 0
        self.demand: Demand = Demand(now)
        self._guessed = [0, *(Work(seats).total(guess_ns) for seats in range(1, _GUESSED))]
        self.deck: Deck = Deck(self.discipline, settings, strict=strict_upstream)
        self.is_quiescing: bool = False
        self.is_closing: bool = False
        self._is_queuing = settings.queues > 0
        self.waiting = self.seats_waiting = 0

    # What happens to tickets

    def arrive(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket`` in: afterwards it is seated, waiting, or rejected for a reason."""
        if ticket.state is not _NEW:
            raise TicketStateError(f"{ticket!r} has already arrived: make a new ticket for each request")
        ended = self._advance(now)
        ticket.queueset = self
        ticket.arrived_at = now
        if not self._is_queuing:
            seated = self._arrive_without_queue(now, ticket)
        else:
            ticket.queue = queue = self.deck.choose(ticket.entropy, self.waiting)
            work, width, known = ticket.work, ticket.width, self._guessed
            ticket.total_work = known[work.seats] + work.final_work if width < _GUESSED else work.total(self.guess_ns)
            if not self.waiting and self.seats_in_use + width <= self.concurrency:
                self.discipline.serve(queue, ticket)
                guarantee = self.guarantee
                if width > self.ceiling:
                    self._cut(ticket)
                    width = ticket.width
                ticket.state = _SEATED  # `_occupy`, written out for speed
                ticket.seated_at = now
                self.dispatched += 1
                self.executing += 1
                queue.executing += 1
                self.seats_in_use += width
                queue.seats_in_use += width
                if guarantee is not None and guarantee.is_tracking:
                    guarantee.occupy(now, queue, width, len(self.deck.queues))
                seated = (ticket,)
            else:
                self._join(now, queue, ticket)
                seated = self._dispatch(now) if self.seats_in_use < self.concurrency else _NOBODY
        if not self.is_steered:
            self.demand.set(now, self.seats_in_use + self.seats_waiting + self._phantom_seats)
        return [*ended, *seated] if ended else seated

    def _join(self, now: int, queue: Queue, ticket: Ticket) -> None:
        """Let ``ticket`` wait in ``queue``, unless that is full."""
        is_open = self.strict_upstream and self.seats_in_use < self.concurrency
        if queue.length + queue.parked >= min(self._limit, self.room) and not is_open:
            self._turn_down(queue, ticket, Reason.QUEUE_FULL)
            return
        self.discipline.arrive(queue, ticket)
        queue.append(ticket)
        ticket.state = _WAITING
        self.waiting += 1
        self.seats_waiting += ticket.width
        self._note_wait(now, queue, ticket.width)

    def abandon(self, now: int, ticket: Ticket, reason: Reason = Reason.TIME_OUT) -> Sequence[Ticket]:
        """Take ``ticket`` out of its queue unserved; it is rejected for ``reason``.

        Unless the end of a linger that was due seats it first: then it is among the tickets returned.
        """
        queue = ticket.queue
        if ticket.state is not _WAITING or ticket.queueset is not self or queue is None:
            raise TicketStateError(f"{ticket!r} doesn't wait in {self!r}: a seated ticket is released, not abandoned")
        if reason not in self.rejected:
            raise InvalidValueError("reason", reason, "it must be a Reason")
        ended = self._advance(now)
        if ended and not ticket.is_waiting:
            return ended
        self._take_out(now, queue, ticket)
        self._reject(ticket, reason)
        if self.deck.is_watchful and (not self.strict_upstream or self.deck.places):
            self.deck.leave(queue, ticket.entropy)
        seated = _NOBODY if self.strict_upstream else self._dispatch(now)
        self.note_demand(now)
        return [*ended, *seated] if ended else seated

    def release(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        """``ticket`` has finished: settle what it really took. Its seats come free now, or when its linger ends."""
        if ticket.state is not _SEATED or ticket.queueset is not self:
            raise TicketStateError(f"{ticket!r} isn't seated in {self!r}: each seated ticket is released once")
        ended = self._advance(now)
        queue = ticket.queue
        self.executing -= 1
        held = now - ticket.seated_at
        if self._charges:
            billed = self.billed_ns(ticket, held)
            if self.guarantee is not None and queue is not None:
                self.guarantee.bill(now, queue, ticket.work.seats * (billed - held))
            held = billed
            self._charges.pop(ticket, None)
        if queue is not None:
            queue.executing -= 1
            self.discipline.settle(queue, ticket, held)
        if ticket.work.linger_ns:
            ticket.state = TicketState.LINGERING
            self._lingering.add(now + ticket.work.linger_ns, ticket)
        else:
            guarantee = self.guarantee
            if guarantee is not None and queue is not None:
                guarantee.vacate(now, queue, ticket.width, now - ticket.seated_at)
            if queue is None or self.passed:
                self._vacate(ticket)
            else:  # likewise, written out for speed
                ticket.state = _RELEASED
                self.seats_in_use -= ticket.width
                queue.seats_in_use -= ticket.width
            if queue is not None and self.deck.is_watchful:
                self.deck.leave(queue, ticket.entropy)
        seated = self._dispatch(now) if self.waiting else _NOBODY
        if not self.is_steered:
            self.demand.set(now, self.seats_in_use + self.seats_waiting + self._phantom_seats)
        return [*ended, *seated] if ended else seated

    # Time

    def next_event_at(self) -> int | None:
        """When the next linger ends, or None when nothing lingers."""
        return self._lingering.next_at

    def tick(self, now: int) -> Sequence[Ticket]:
        """Free the seats whose linger has ended, and seat those whose turn has come by nothing but time."""
        return self._advance(now)

    def _advance(self, now: int) -> Sequence[Ticket]:
        """Bring the meters up to ``now``, and seat those whom lingers that ended or the passing of time let in."""
        if now.__class__ is not int:
            raise InvalidValueError("now", now, "it must be an integer of nanoseconds")
        lets_in = self._is_restless
        first_end = self._lingering.next_at
        if first_end is not None and first_end <= now:
            self._end_lingers(now)
            lets_in = True
        elapsed = now - self._now
        if elapsed:
            if elapsed < 0:
                raise ClockError("now", now, f"it must not be before {self._now}", hint="Use one monotonic clock")
            self._now = now
            demand = self.seats_in_use - self._queueless_seats
            self.discipline.advance(elapsed, demand if self.is_steered else demand + self.seats_waiting)
        if not lets_in or not self.waiting or self.seats_in_use >= self.concurrency:
            return _NOBODY
        seated = self._dispatch(now)
        self.note_demand(now)
        return seated

    def _end_lingers(self, now: int) -> None:
        """Each at its own time, in case that the call comes late."""
        for ends_at, ticket in self._lingering.pop_until(now):
            if ends_at > self._now:
                waiting = 0 if self.is_steered else self.seats_waiting
                self.discipline.advance(ends_at - self._now, self.seats_in_use + waiting - self._queueless_seats)
                self._now = ends_at
            queue = ticket.queue
            if queue is not None:
                self.discipline.vacate(queue, ticket)
                if self.guarantee is not None:
                    self.guarantee.vacate(ends_at, queue, ticket.width, ends_at - ticket.seated_at)
            self._vacate(ticket)
            if queue is not None and self.deck.is_watchful:
                self.deck.leave(queue, ticket.entropy)
            self.note_demand(ends_at)

    def book(self, until: int, entropy: int, *, times: int, held_ns: int, work: int, last_work: int) -> None:
        """Tickets of one seat came and went one by one while this was idle and wasn't told: so many, for so long.

        The last one, of the flow with this ``entropy``, was gone at ``until``; ``work`` is what they were together.
        """
        assert self.is_idle, f"somebody is in {self!r}"
        self.discipline.advance(until - self._now, 0)
        self._now = until
        self.dispatched += times
        if not self.is_steered:
            self.demand.book(until, held_ns)
        if self._is_queuing:
            queue = self.deck.choose_again(entropy, times)
            self.discipline.catch_up(queue, work, last_work)
            if self.deck.is_watchful:
                self.deck.leave(queue, entropy)

    def note_demand(self, now: int) -> None:
        """The seats in use or waited for are what they are from ``now`` on. Nobody asks where seats are steered."""
        if not self.is_steered:
            self.demand.set(now, self.seats_in_use + self.seats_waiting + self._phantom_seats)

    def _note_wait(self, now: int, queue: Queue, width: int) -> None:
        if self.guarantee is not None:
            self.guarantee.wait(now, queue, width, self.deck)

    def _arrive_without_queue(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        """Where nobody waits, who doesn't fit is rejected."""
        if self.is_quiescing:
            self._reject(ticket, Reason.QUEUE_CLOSING if self.is_closing and not self.is_idle else Reason.QUEUE_CLOSED)
        elif self.settings.exempt or (self._fits(ticket.width) and (self.concurrency or self.strict_upstream)):
            self._occupy(now, ticket)
            return (ticket,)
        else:
            self._reject(ticket, Reason.CONCURRENCY_LIMIT)
        return _NOBODY

    def reconfigure(self, now: int, settings: QueueSetSettings, ceiling: int | None = None) -> Sequence[Ticket]:
        """Set other numbers.

        Nobody who waits or runs loses a place; a length limit or a hand counts for those who come. Exempt and limited
        levels don't turn into each other, nor do seats that are steered, which need their ``ceiling``, and others.
        """
        require_settings(settings)
        if settings.exempt is not self.settings.exempt:
            raise InvalidValueError("exempt", settings.exempt, "a level stays exempt or limited for its whole life")
        if (ceiling is not None) is not self.is_steered:
            raise InvalidValueError("ceiling", ceiling, "exactly a queue set whose seats are steered has one")
        ended = self._advance(now)
        self.settings = settings
        if ceiling is None:
            self.concurrency = self.ceiling = settings.concurrency
        else:
            self.ceiling = require_integer("ceiling", ceiling, least=0)
        self._limit = settings.queue_length_limit
        self.rounds = 0 if self.strict_upstream else settings.backfill
        self._is_queuing = settings.queues > 0 and not self.is_quiescing
        self._is_restless = self.discipline.is_restless and (settings.queues > 0 or self.waiting > 0)
        self.discipline.resize(self.ceiling)
        if self.guarantee is not None:
            self.guarantee.resize(now, self.ceiling)
        self.deck.resize(settings)
        for queue in self.deck.surplus():
            self.deck.close(queue)
        seated = self._dispatch(now)
        self.note_demand(now)
        return [*ended, *seated]

    def quiesce(self, *, reopen: bool = False, closing: bool = False) -> None:
        """Admit nobody from now on; who waits is still served. `is_idle` tells when the level can be forgotten.

        One that is ``closing`` may open again, and says so to those who come before it is idle.
        """
        self.is_quiescing, self.is_closing = not reopen, closing
        self._is_queuing = self.settings.queues > 0 and reopen

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, not even for a gate, and nothing runs or lingers."""
        return not (self.waiting or self.executing or self._lingering or self.parked)

    # Looking

    def snapshot(self) -> QueueSetSnapshot:
        """Return a frozen snapshot."""
        return picture(self, now=self._now, lingering=len(self._lingering))

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up, or where one who could sit is left standing."""
        self._lingering.check()
        self.reservation.check()
        check_queues(self)
        oldest = check_turn(self)
        if self.strict_upstream:
            return  # there a queue may close while its seats linger, and leave one standing
        check_seats(self, self._queueless_seats, self._phantom_seats)
        if oldest is not None and self.seats_in_use < self.concurrency:
            assert not self._fits(oldest.width), f"{oldest!r} could sit and is left standing in {self!r}"

    def __repr__(self) -> str:
        return (
            f"<QueueSet {self.discipline.name}: {self.waiting} waiting, {self.executing} executing, "
            f"{len(self._lingering)} lingering, {self.seats_in_use} of {self.concurrency} seats in use>"
        )
