"""One level's queues and seats: tickets arrive, wait in a queue, are seated, and give their seats back.

Pure and synchronous. Time is the argument ``now`` (integer nanoseconds that never decrease). Calls that can seat
tickets return those that they seated, and the caller wakes them. There is no timer: `QueueSet.next_event_at` returns
the time at which *lingering* seats (those that a ticket keeps after its reply) are due to become free. The first
`tick`, `arrive`, `release`, `abandon`, `unpark` or `reconfigure` at or after that time frees them.

The `Deck` chooses a queue for a ticket. The `Discipline`, by default `EqualSerial`, picks the queue that is served
next, unless the `Guarantee` names one that has fallen too far behind its fair share. The oldest ticket of that queue is
seated if enough seats are free. Otherwise the free seats are saved up for it, and other tickets may be seated before it
for a bounded time only (see `seats`). When the seats suffice, the ticket's gates are asked. A ticket that a gate keeps
waiting is *parked*: it isn't among the waiting tickets of its queue, so it isn't picked and its seats aren't counted as
demand, but it still counts towards the length limit of its queue. `QueueSet.unpark` puts the ticket back before all
tickets that arrived later.

Kubernetes' known defects are corrected; ``strict_upstream`` keeps them, so that traces of Kubernetes replay exactly:

no starvation    there is a bound to how far a waiting queue falls behind its fair share (see `guarantee`)
bounded queues   a queue never exceeds its length limit, not even while free seats are saved up for a wide ticket
leaving tickets  when a ticket leaves its queue unserved, tickets behind it are seated at once if they fit
phantom seats    when a ticket gets fewer seats than it asked for, the missing seats don't count as demand any more
surplus queues   queues beyond the configured number are removed when they are idle, and the others keep their index
zero seats       a level with no seats and no queues admits no ticket
final seats      the seats that a ticket keeps after its reply are limited to those of the level, also without queues
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from apf_middleware.exceptions import ClockError, InvalidValueError, TicketStateError, require_integer
from apf_middleware.fairqueuing.deck import Deck
from apf_middleware.fairqueuing.demand import Demand
from apf_middleware.fairqueuing.disciplines import Discipline, EqualSerial, UpstreamEqualSerial
from apf_middleware.fairqueuing.guarantee import Guarantee
from apf_middleware.fairqueuing.queueset_settings import QueueSetSettings, require_settings
from apf_middleware.fairqueuing.seats import Charges, Lingering, Reservation
from apf_middleware.fairqueuing.ticket import (
    IS_PURE,
    Gatekeeper,  # noqa: TC001 - loaded anyway
    Queue,
    Reason,
    Ticket,
    TicketState,
)
from apf_middleware.fairqueuing.work import DEFAULT_GUESS_NS, Work
from apf_middleware.snapshots import QueueSetSnapshot

__all__ = ["QueueSet"]

_NEW: Final = TicketState.NEW
_WAITING: Final = TicketState.WAITING
_SEATED: Final = TicketState.SEATED
_RELEASED: Final = TicketState.RELEASED

_GUESSED: Final = 101  # the work of fewer seats than this is precomputed; Kubernetes estimates 100 seats at most
_NONE: Final[tuple[Ticket, ...]] = ()


class QueueSet:
    """The queues and seats of one level.

    ``discipline`` is a factory: it gets the number of seats and ``guess_ns``, and returns a `Discipline`. ``guess_ns``
    is the assumed duration of a request until it is known. ``now`` is the initial time. ``room``, if given, gets the
    number of all waiting and parked tickets, and returns a second limit for the length of each queue.

    ``concurrency`` is the number of seats that may be used at the moment, and ``ceiling`` its upper bound. A ticket
    wider than the ceiling is seated when nothing else of the level runs; otherwise it would wait for ever.

    If a queue set ``has_changing_weights``, the weight of a flow changes with time, as in a fleet.

    Without a ``ceiling``, both are the concurrency of the settings. With one, the seats are *steered*: the caller
    divides seats among several levels, and sets ``concurrency`` before each call. The discipline's virtual time then
    advances in proportion to the seats in use, and no demand is recorded.
    """

    __slots__ = (
        "_guessed",
        "_is_queuing",
        "_is_restless",
        "_limit",
        "_now",
        "_phantom_seats",
        "_queueless_seats",
        "_room",
        "ceiling",
        "charges",
        "concurrency",
        "deck",
        "demand",
        "discipline",
        "dispatched",
        "executing",
        "gatekeeper",
        "guarantee",
        "guess_ns",
        "has_changing_weights",
        "is_closing",
        "is_quiescing",
        "is_steered",
        "lingering",
        "no_accommodation",
        "parked",
        "rejected",
        "reservation",
        "rounds",
        "seats_in_use",
        "seats_waiting",
        "settings",
        "strict_upstream",
        "waiting",
    )

    def __init__(
        self,
        settings: QueueSetSettings,
        *,
        discipline: Callable[[int, int], Discipline[Any]] = EqualSerial,
        guess_ns: int = DEFAULT_GUESS_NS,
        strict_upstream: bool = False,
        now: int = 0,
        ceiling: int | None = None,
        room: Callable[[int], int] | None = None,
    ) -> None:
        require_settings(settings)
        most = settings.concurrency if ceiling is None else require_integer("ceiling", ceiling, least=0)
        self.strict_upstream: bool = strict_upstream
        self.has_changing_weights: bool = False
        self.is_steered: bool = ceiling is not None
        self.guess_ns: int = require_integer("guess_ns", guess_ns, least=1)
        self._guessed = [0, *(Work(seats).total(guess_ns) for seats in range(1, _GUESSED))]
        self._now = require_integer("now", now)
        self.concurrency: int = settings.concurrency
        self.ceiling: int = most
        self.charges: Charges = Charges()
        self.lingering: Lingering = Lingering()
        self.reservation: Reservation = Reservation({})
        if strict_upstream and discipline is EqualSerial:
            discipline = UpstreamEqualSerial
        self.discipline: Discipline[Any] = discipline(most, guess_ns)
        self.discipline.begin(now)
        if self.is_steered:
            self.discipline.follow()
        is_guaranteed = self.discipline.is_guaranteed and not (strict_upstream or settings.exempt)
        self.guarantee: Guarantee | None = Guarantee(most, now) if is_guaranteed else None
        self.deck: Deck = Deck(self.discipline, settings, strict=strict_upstream)
        self.gatekeeper: Gatekeeper | None = None
        self.demand: Demand = Demand(now)
        self._begin_counts()
        self._room = room
        self.is_quiescing: bool = False
        self.is_closing: bool = False
        self._adopt(settings)

    def _begin_counts(self) -> None:
        self.seats_in_use: int = 0  # lingering ones included
        self._queueless_seats = 0  # seats in use by tickets that arrived while there were no queues
        self._phantom_seats = 0  # with ``strict_upstream``, seats that were cut and still count as demand
        self.waiting: int = 0
        self.seats_waiting: int = 0
        self.parked: int = 0
        self.executing: int = 0
        self.dispatched: int = 0
        self.no_accommodation: int = 0  # how often the next ticket didn't fit
        self.rejected: dict[Reason, int] = dict.fromkeys(Reason, 0)

    def _adopt(self, settings: QueueSetSettings) -> None:
        self.settings: QueueSetSettings = settings
        self.rounds: int = 0 if self.strict_upstream else settings.backfill
        self._limit = settings.queue_length_limit
        self._is_queuing = settings.queues > 0 and not self.is_quiescing
        self._is_restless = self.discipline.is_restless and (settings.queues > 0 or self.waiting > 0)

    # Arriving and leaving

    def arrive(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        """Seat or queue ``ticket``, or reject it with a reason."""
        if ticket.state is not _NEW:
            raise TicketStateError(f"{ticket!r} has already arrived: make a new ticket for each request")
        ended = self.tick(now)
        ticket.queueset = self
        ticket.arrived_at = now
        seated = self._arrive_in_queue(now, ticket) if self._is_queuing else self._arrive_without_queue(now, ticket)
        if not self.is_steered:  # here and in `release`: calls are slow
            self.note_demand(now)
        return [*ended, *seated] if ended else seated

    def _arrive_in_queue(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        ticket.queue = queue = self.deck.choose(ticket.entropy, self.waiting)
        work, width = ticket.work, ticket.width
        if width < _GUESSED:
            ticket.total_work = self._guessed[work.seats] + work.final_work
        else:
            ticket.total_work = work.total(self.guess_ns)
        if self.waiting or self.seats_in_use + width > self.concurrency:
            return self._join(now, queue, ticket)
        if ticket.weight != queue.weight:
            self._reweigh(now, queue, ticket)
        self.discipline.serve(queue, ticket)
        self._occupy(now, ticket)
        if self.guarantee is not None and self.guarantee.is_tracking:
            self.guarantee.occupy(now, queue, ticket.width, len(self.deck.queues))
        return (ticket,)

    def _join(self, now: int, queue: Queue, ticket: Ticket) -> Sequence[Ticket]:
        """Let ``ticket`` wait in ``queue``, unless that is full."""
        if self._is_full(queue) and not (
            self.strict_upstream and self.seats_in_use < self.concurrency  # in this case Kubernetes adds the ticket
        ):
            self._turn_down(queue, ticket, Reason.QUEUE_FULL)
            return _NONE
        width = ticket.width
        if ticket.weight != queue.weight:
            self._reweigh(now, queue, ticket)
        self.discipline.arrive(queue, ticket)
        queue.append(ticket)
        ticket.state = _WAITING
        self.waiting += 1
        self.seats_waiting += width
        if self.guarantee is not None:
            self.guarantee.wait(now, queue, width, self.deck)
        return self._dispatch(now) if self.seats_in_use < self.concurrency else _NONE

    def _reweigh(self, now: int, queue: Queue, ticket: Ticket) -> None:
        """Set the weight of ``queue``, at which a ticket of another weight arrives.

        Each arrival moves the weight towards the average of the waiting tickets. If weights change with time, the
        average would be outdated until all those tickets have left, so a queue of one flow takes the latest weight.
        """
        if not self.discipline.is_weighted:
            return
        weight = ticket.weight
        if queue.owner is None or not self.has_changing_weights:
            weight = (queue.weight * queue.length + weight) // (queue.length + 1)
        if self.guarantee is not None:
            self.guarantee.reweigh(now, queue, weight)
        self.discipline.reweigh(queue, weight)

    def _is_full(self, queue: Queue) -> bool:
        length = queue.length + queue.parked
        return length >= self._limit or (self._room is not None and length >= self._room(self.waiting + self.parked))

    def _arrive_without_queue(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        """Seat ``ticket`` or reject it, in a level without queues."""
        if self.is_quiescing:
            self._reject(ticket, Reason.QUEUE_CLOSING if self.is_closing and not self.is_idle else Reason.QUEUE_CLOSED)
        elif self.settings.exempt or (self._fits(ticket.width) and (self.concurrency or self.strict_upstream)):
            self._occupy(now, ticket)
            return (ticket,)
        else:
            self._reject(ticket, Reason.CONCURRENCY_LIMIT)
        return _NONE

    def turn_away(self, now: int, ticket: Ticket) -> None:
        """Reject ``ticket``, which has just arrived, because of a gate; it does not enter a queue."""
        ticket.queueset = self
        ticket.arrived_at = now
        self._reject(ticket, Reason.GATE)

    def abandon(self, now: int, ticket: Ticket, reason: Reason = Reason.TIME_OUT) -> Sequence[Ticket]:
        """Take ``ticket`` out of its queue unserved, and reject it for ``reason``.

        If a linger that ends by ``now`` frees seats for it, it isn't rejected, but returned as seated; a gate may also
        reject it then.
        """
        queue = ticket.queue
        if ticket.state is not _WAITING or ticket.queueset is not self or queue is None:
            raise TicketStateError(f"{ticket!r} doesn't wait in {self!r}: a seated ticket is released, not abandoned")
        if reason not in self.rejected:
            raise InvalidValueError("reason", reason, "it must be a Reason")
        ended = self.tick(now)
        if not ticket.is_waiting:
            return ended
        self._take_out(now, queue, ticket)
        self._reject(ticket, reason)
        if self.deck.is_watchful and (not self.strict_upstream or self.deck.exact):
            self.deck.leave(queue, ticket.entropy)
        seated = _NONE if self.strict_upstream else self._dispatch(now)
        self.note_demand(now)
        return [*ended, *seated] if ended else seated

    def release(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        """Bill ``ticket``, which has finished, for its actual duration, and free its seats now or after its linger."""
        if ticket.state is not _SEATED or ticket.queueset is not self:
            raise TicketStateError(f"{ticket!r} isn't seated in {self!r}: each seated ticket is released once")
        ended = self.tick(now)
        queue, held = ticket.queue, now - ticket.seated_at
        billed = held
        self.executing -= 1
        if self.charges.seats:
            billed = self.charges.settle(ticket, held)
            if self.guarantee is not None and queue is not None:
                self.guarantee.bill(now, queue, ticket.work.seats * held, ticket.work.seats * billed)
        if queue is not None:
            queue.executing -= 1
            self.discipline.settle(queue, ticket, billed)
        if ticket.work.linger_ns:
            ticket.state = TicketState.LINGERING
            self.lingering.add(now + ticket.work.linger_ns, ticket)
        else:
            self._vacate(now, ticket)
        seated = self._dispatch(now) if self.waiting else _NONE
        if not self.is_steered:
            self.note_demand(now)
        return [*ended, *seated] if ended else seated

    def charge(self, ticket: Ticket, seats: float) -> None:
        """Bill ``ticket`` for this number of seats for its whole duration; the seats that it holds stay the same."""
        if ticket.state is not _SEATED or ticket.queueset is not self:
            raise TicketStateError(f"{ticket!r} isn't seated in {self!r}: only a seated ticket can be charged")
        self.charges.add(ticket, seats)

    # Time

    def next_event_at(self) -> int | None:
        """Return the time at which the next linger ends, or None if nothing lingers."""
        return self.lingering.next_at

    def tick(self, now: int) -> Sequence[Ticket]:
        """Free the seats of lingers that have ended, and seat the next tickets."""
        if IS_PURE and now.__class__ is not int:  # compiled, the comparison alone would take 4 % of a request's time
            raise InvalidValueError("now", now, "it must be an integer of nanoseconds")
        first_end = self.lingering.next_at
        has_ended = first_end is not None and first_end <= now
        if has_ended:
            self._end_lingers(now)
        if now > self._now:
            self._advance(now)
        elif now < self._now:
            raise ClockError.between(self._now, now)
        if not (has_ended or self._is_restless) or not self.waiting or self.seats_in_use >= self.concurrency:
            return _NONE
        seated = self._dispatch(now)
        self.note_demand(now)
        return seated

    def _advance(self, now: int) -> None:
        """Advance the time of the discipline to ``now``."""
        demand = self.seats_in_use - self._queueless_seats
        self.discipline.advance(now - self._now, demand if self.is_steered else demand + self.seats_waiting)
        self._now = now

    def _end_lingers(self, now: int) -> None:
        """End the lingers that are due by ``now``, each at its own time, because this call may be late."""
        for ends_at, ticket in self.lingering.pop_until(now):
            if ends_at > self._now:
                self._advance(ends_at)
            if ticket.queue is not None:
                self.discipline.vacate(ticket.queue, ticket)
            self._vacate(ends_at, ticket)
            self.note_demand(ends_at)

    def book(self, until: int, entropy: int, *, times: int, held_ns: int) -> None:
        """Account for tickets that never entered the queue set: it was idle, and they ran one at a time.

        They were ``times`` tickets of one seat each, and together they held seats for ``held_ns``. The last one, of the
        flow with this ``entropy``, ended at ``until``.
        """
        assert self.is_idle, f"{self!r} isn't idle"
        self.discipline.advance(until - self._now, 0)
        self._now = until
        self.dispatched += times
        if not self.is_steered:
            self.demand.book(until, held_ns)
        if self._is_queuing:
            queue = self.deck.choose_again(entropy, times)
            self.discipline.catch_up(queue)
            if self.deck.is_watchful:
                self.deck.leave(queue, entropy)

    def note_demand(self, now: int) -> None:
        """Record the demand as of ``now`` (seats in use plus seats asked for), unless the seats are steered."""
        if not self.is_steered:
            self.demand.set(now, self.seats_in_use + self.seats_waiting + self._phantom_seats)

    # Serving

    def head(self) -> Ticket:
        """Return the ticket that is next; raise LookupError if no ticket waits."""
        overdue = self.guarantee.overdue(self._now, self.concurrency) if self.guarantee is not None else None
        ticket = (overdue or self.deck.queues[self.discipline.pick()]).oldest
        assert ticket is not None, "a discipline picks a queue where a ticket waits"
        return ticket

    def seat_head(self, now: int, ticket: Ticket) -> None:
        """Seat ``ticket``, which is the `head` or may pass it; the caller has checked that it fits."""
        queue = ticket.queue
        assert queue is not None, "a waiting ticket has a queue"
        if self.guarantee is not None and self.guarantee.overdue(now, self.concurrency) is queue:
            self.discipline.forget_lead(queue)
        if self.reservation.rounds:
            self.reservation.end(ticket)
        queue.remove(ticket)
        self.waiting -= 1
        self.seats_waiting -= ticket.width
        asked = ticket.width
        self._occupy(now, ticket)
        self.discipline.dispatch(queue, ticket)
        if self.guarantee is not None:
            self.guarantee.dispatch(now, queue, ticket.width, asked - ticket.width)

    def _dispatch(self, now: int) -> Sequence[Ticket]:
        """Seat tickets in turn until the next one doesn't fit; then save up seats for that one."""
        seated: list[Ticket] = []
        gatekeeper = self.gatekeeper
        while self.waiting and self.seats_in_use < self.concurrency:
            ticket = self.head()
            if not self._fits(ticket.width):
                if gatekeeper is not None and gatekeeper.bars(now, ticket):
                    continue  # parked or refused: its gates are closed, so saving seats for it is pointless
                self._save_up(now, ticket, seated)
                break
            if gatekeeper is not None and not gatekeeper.admits(now, ticket):
                continue  # the ticket has been parked or refused, and isn't in the queue any more
            self.seat_head(now, ticket)
            seated.append(ticket)
        return seated

    # Back-fill

    def _save_up(self, now: int, head: Ticket, seated: list[Ticket]) -> None:
        """Save up seats for ``head``; seat the tickets that may pass it now, and add them to ``seated``."""
        self.no_accommodation += 1
        head.pass_over()
        while self.rounds and self.seats_in_use < self.concurrency:
            ticket = self.find_behind(head, self.concurrency - self.seats_in_use)
            if ticket is None:
                break
            if self.gatekeeper is not None and not self.gatekeeper.admits(now, ticket):
                continue  # the ticket has been parked or refused, and isn't in the queue any more
            self.seat_head(now, ticket)
            self.reservation.let_pass(ticket, own=True)
            seated.append(ticket)

    def find_behind(self, head: Ticket, free: int) -> Ticket | None:
        """Return a ticket that fits the ``free`` seats and may be seated before ``head``, which doesn't fit.

        The discipline picks it among the tickets that fit, so the flows with such tickets still get fair shares. No
        ticket passes one whose queue is far behind.
        """
        if self.guarantee is not None and self.guarantee.bars_passing(self._now, self.concurrency, head.queue):
            return None
        if not self.may_be_passed(head):
            return None
        try:
            return self.deck.queues[self.discipline.pick(free)].oldest
        except LookupError:
            return None

    def may_be_passed(self, head: Ticket) -> bool:
        """Return whether another ticket may be seated before ``head``, which is next and doesn't fit."""
        if not self.rounds:
            return False
        reservation = self.reservation
        # Would ``head`` fit without the tickets that passed it in this round (see `seats`)? Without those of this
        # level, ``own_seats`` fewer seats would be in use. Without those of other levels, the limit would be higher by
        # ``other_seats``, though not above the ceiling.
        most = min(self.ceiling, self.concurrency + reservation.other_seats)
        if head.width > self.ceiling:
            would_fit = self.executing <= reservation.own_tickets and self.ceiling <= most
        else:
            would_fit = self.seats_in_use - reservation.own_seats + head.width <= most
        return reservation.may_be_passed(head, self.rounds, would_fit=would_fit)

    # Seats

    def _fits(self, width: int) -> bool:
        """Return whether a ticket of this ``width`` can be seated; one that is wider than the ceiling runs alone."""
        if width > self.ceiling:
            return not self.executing and self.ceiling <= self.concurrency
        return self.seats_in_use + width <= self.concurrency

    def _occupy(self, now: int, ticket: Ticket) -> None:
        if ticket.width > self.ceiling:
            self._cut(ticket)
        ticket.state = _SEATED
        ticket.seated_at = now
        self.dispatched += 1
        self.executing += 1
        self.seats_in_use += ticket.width
        queue = ticket.queue
        if queue is None:
            self._queueless_seats += ticket.width
        else:
            queue.executing += 1
            queue.seats_in_use += ticket.width

    def _cut(self, ticket: Ticket) -> None:
        """Reduce the final seats of ``ticket``, which is wider than the level, and extend its linger accordingly."""
        is_exempt = self.settings.exempt or (self.strict_upstream and ticket.queue is None)
        if is_exempt or ticket.work.final_seats <= self.ceiling:
            return
        width = ticket.width
        ticket.work = ticket.work.within(self.ceiling)
        ticket.width = ticket.work.width
        self._phantom_seats += width - ticket.width if self.strict_upstream else 0

    def _vacate(self, now: int, ticket: Ticket) -> None:
        """Free the seats of ``ticket``."""
        queue, width = ticket.queue, ticket.width
        # The guarantee must be called before the seats are given back, because it reads `queue.seats_in_use`.
        if self.guarantee is not None and queue is not None:
            self.guarantee.vacate(now, queue, width, now - ticket.seated_at)
        if self.reservation.passed:
            self.reservation.vacate(ticket)
        ticket.state = _RELEASED
        self.seats_in_use -= width
        if queue is None:
            self._queueless_seats -= width
            return
        queue.seats_in_use -= width
        if self.deck.is_watchful:
            self.deck.leave(queue, ticket.entropy)

    # Gates

    def arrive_parked(self, now: int, ticket: Ticket) -> None:
        """Park ``ticket``, which has just arrived, or reject it if its queue is full."""
        ticket.queueset = self
        ticket.arrived_at = now
        ticket.queue = queue = self.deck.choose(ticket.entropy, self.waiting)
        ticket.total_work = ticket.work.total(self.guess_ns)
        if self._is_full(queue):
            self._turn_down(queue, ticket, Reason.QUEUE_FULL)
            return
        ticket.state = _WAITING
        queue.parked += 1
        self.parked += 1

    def park(self, now: int, ticket: Ticket) -> None:
        """Take ``ticket`` out of the waiting tickets of its queue until `unpark`, because it waits for a gate."""
        queue = ticket.queue
        assert queue is not None, "a waiting ticket has a queue"
        self._withdraw(now, queue, ticket)
        queue.parked += 1
        self.parked += 1
        self.note_demand(now)

    def unpark(self, now: int, ticket: Ticket) -> Sequence[Ticket]:
        """Put ``ticket`` back into its queue, in the order of arrival, and seat the tickets that can be seated now."""
        queue = ticket.queue
        assert queue is not None, "a parked ticket has a queue"
        ended = self.tick(now)
        queue.parked -= 1
        self.parked -= 1
        self.discipline.arrive(queue, ticket)
        queue.insert(ticket)
        self.waiting += 1
        self.seats_waiting += ticket.width
        if self.guarantee is not None:
            self.guarantee.wait(now, queue, ticket.width, self.deck)
        if ticket.newer is not None:  # it was inserted before tickets that arrived later
            self.discipline.rejoin(queue, ticket)
        seated = self._dispatch(now)
        self.note_demand(now)
        return [*ended, *seated]

    def refuse(self, now: int, ticket: Ticket) -> None:
        """Reject ``ticket``, which is next or parked, because a gate refuses it."""
        queue = ticket.queue
        assert queue is not None, "a waiting ticket has a queue"
        self._take_out(now, queue, ticket)
        self._turn_down(queue, ticket, Reason.GATE)
        self.note_demand(now)

    def _take_out(self, now: int, queue: Queue, ticket: Ticket) -> None:
        """Take ``ticket``, which waits or is parked, out of ``queue`` unserved."""
        if self.gatekeeper is not None and self.gatekeeper.is_parked(ticket):
            queue.parked -= 1
            self.parked -= 1
        else:
            self._withdraw(now, queue, ticket)

    def _withdraw(self, now: int, queue: Queue, ticket: Ticket) -> None:
        """Take ``ticket`` out of the waiting tickets of ``queue``, unserved."""
        if self.reservation.rounds:
            self.reservation.end(ticket)
        was_oldest = queue.oldest is ticket
        queue.remove(ticket)
        self.waiting -= 1
        self.seats_waiting -= ticket.width
        self.discipline.leave(queue, ticket, was_oldest=was_oldest)
        if self.guarantee is not None:
            self.guarantee.leave(now, queue, ticket.width)

    def _turn_down(self, queue: Queue, ticket: Ticket, reason: Reason) -> None:
        """Reject ``ticket``, which has left ``queue`` or could not enter it."""
        self._reject(ticket, reason)
        if self.deck.is_watchful:
            self.deck.leave(queue, ticket.entropy)

    def _reject(self, ticket: Ticket, reason: Reason) -> None:
        ticket.state = TicketState.REJECTED
        ticket.reason = reason
        self.rejected[reason] += 1

    # Operation

    def reconfigure(self, now: int, settings: QueueSetSettings, ceiling: int | None = None) -> Sequence[Ticket]:
        """Apply new settings; a new length limit or hand size applies only to tickets that arrive later.

        The new settings must be exempt exactly if the old ones are. ``ceiling`` must be given exactly if the seats are
        steered.
        """
        require_settings(settings)
        if settings.exempt is not self.settings.exempt:
            raise InvalidValueError("exempt", settings.exempt, "a level stays exempt or limited for its whole life")
        if (ceiling is not None) is not self.is_steered:
            raise InvalidValueError("ceiling", ceiling, "it must be given if the seats are steered, and only then")
        ended = self.tick(now)
        if ceiling is None:
            self.concurrency = self.ceiling = settings.concurrency
        else:
            self.ceiling = require_integer("ceiling", ceiling, least=0)
        self._adopt(settings)
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
        """Reject new tickets from now on, or accept them again if ``reopen``; waiting tickets are still served.

        The level can be forgotten when it `is_idle`. If it is ``closing``, the reason for the rejections is
        ``QUEUE_CLOSING`` until it is idle, and then ``QUEUE_CLOSED``.
        """
        self.is_quiescing, self.is_closing = not reopen, closing
        self._is_queuing = self.settings.queues > 0 and reopen

    @property
    def is_idle(self) -> bool:
        """True if no ticket waits, is parked, runs or lingers."""
        return not (self.waiting or self.executing or self.lingering or self.parked)

    # Inspection

    def snapshot(self) -> QueueSetSnapshot:
        """Return a frozen snapshot."""
        return QueueSetSnapshot(
            now=self._now,
            concurrency=self.concurrency,
            discipline=self.discipline.name,
            meters=self.discipline.meters(),
            is_quiescing=self.is_quiescing,
            waiting=self.waiting,
            seats_waiting=self.seats_waiting,
            executing=self.executing,
            lingering=len(self.lingering),
            seats_in_use=self.seats_in_use,
            dispatched=self.dispatched,
            rejected={reason.value: number for reason, number in self.rejected.items()},
            no_accommodation=self.no_accommodation,
            queues=tuple(queue.snapshot() for queue in self.deck if not queue.is_idle),
        )

    def check(self) -> None:
        """Raise AssertionError unless the sums add up and no ticket waits that could be seated."""
        for part in (self.lingering, self.reservation, self.deck, self.discipline):
            part.check()
        if self.guarantee is not None and self.guarantee.is_tracking:
            self.guarantee.check()
        queues = list(self.deck)
        assert self.waiting == sum(queue.length for queue in queues), "tickets waiting"
        assert self.parked == sum(queue.parked for queue in queues), "parked tickets"
        assert self.seats_waiting == sum(ticket.width for queue in queues for ticket in queue), "seats waiting"
        assert self._queueless_seats >= 0, "seats of tickets without a queue"
        head = self.head() if self.waiting else None  # LookupError if the discipline forgets a waiting ticket
        if self.strict_upstream:
            return  # in Kubernetes a queue may close while its seats linger, and a ticket that fits may wait
        assert self.seats_in_use == sum(queue.seats_in_use for queue in queues) + self._queueless_seats, "seats"
        assert not self._phantom_seats, "phantom seats"
        if head is not None and self.seats_in_use < self.concurrency:
            assert not self._fits(head.width), f"{head!r} could be seated and waits in {self!r}"

    def __repr__(self) -> str:
        return (
            f"<QueueSet {self.discipline.name}: {self.waiting} waiting, {self.executing} executing, "
            f"{len(self.lingering)} lingering, {self.seats_in_use} of {self.concurrency} seats in use>"
        )
