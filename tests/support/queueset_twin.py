"""The oracle: fair queuing as plainly as its rules tell it, and both queue sets driven side by side.

`TwinQueueSet` is written from the rules (golden/README.md, "Semantics in force") and from the corrections that the
opening of queueset.py lists, not from our code; from there come only the settings and the words. Whatever it wants to
know it counts anew: it keeps no sums, no heap, no caches. Its meters are lowered at each epoch, as upstream's are.

`Twins` does each step to ours and to the twin, and compares what can be seen of them: attributes of the same name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

from apf_middleware.fairqueuing import QueueSet, QueueSetSettings, Reason, Ticket, TicketState, Work
from apf_middleware.fairqueuing.disciplines.upstream_equal_serial import UpstreamEqualSerial, UpstreamEqualSerialQueue
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.fairqueuing.work import WEIGHT_ONE

R_DECREMENT = 2**63 - 1
HIGH_R = R_DECREMENT + R_DECREMENT // 2


def work(seats: float, duration_ns: int) -> int:
    """In units of 1e-8 seat-seconds, rounded half away from zero."""
    exact = Decimal(float(seats) * float(duration_ns) / 10)
    return int(exact.to_integral_value(ROUND_HALF_UP))


def deal(entropy: int, deck_size: int, hand_size: int) -> list[int]:
    """Take cards out of a real deck, each by its place among those that are left."""
    deck = list(range(deck_size))
    hand = []
    for _ in range(hand_size):
        entropy, place = divmod(entropy, len(deck))
        hand.append(deck.pop(place))
    return hand


@dataclass(eq=False, slots=True)
class TwinTicket:
    """One request's place."""

    entropy: int
    seats: int
    final_seats: int = 0
    linger_ns: int = 0
    state: TicketState = TicketState.NEW
    reason: Reason | None = None
    queue: "TwinQueue | None" = None
    total_work: int = 0
    arrival_r: int = 0
    start_r: int | None = None  # without the epochs: it never goes down
    seated_at: int | None = None
    free_at: int = 0

    @property
    def width(self) -> int:
        return max(self.seats, self.final_seats)


@dataclass(eq=False, slots=True)
class TwinQueue:
    """Who waits in line, the oldest first, and who has seats, be it lingering."""

    index: int
    next_dispatch_r: int = 0
    line: list[TwinTicket] = field(default_factory=list)
    seated: list[TwinTicket] = field(default_factory=list)

    def length(self) -> int:
        return len(self.line)

    def work_waiting(self) -> int:
        return sum(ticket.total_work for ticket in self.line)

    def seats_waiting(self) -> int:
        return sum(ticket.width for ticket in self.line)

    def seats_in_use(self) -> int:
        return sum(ticket.width for ticket in self.seated)

    def executing(self) -> int:
        return sum(ticket.state is TicketState.SEATED for ticket in self.seated)

    def is_active(self) -> bool:
        return self.length() + self.executing() > 0

    def bound(self) -> None:
        """Nobody starts before having arrived (anti-windup)."""
        if self.line:
            self.next_dispatch_r = max(self.next_dispatch_r, self.line[0].arrival_r)


class TwinQueueSet:
    """The queues and seats of one level. Each step returns whom it seated."""

    def __init__(self, settings: QueueSetSettings, guess_ns: int, initial_r: int) -> None:
        self.guess_ns = guess_ns
        self.r = initial_r
        self.now = self.epochs = self.robin_index = self.choices = self.dispatched = self.no_accommodation = 0
        self.is_quiescing = False
        self.queues: list[TwinQueue] = []  # by index, of which some may be missing
        self.queueless = TwinQueue(-1)  # no queue at all: who is admitted without one is kept here
        self.lingering: list[TwinTicket] = []  # in the order of their release
        self.rejected = dict.fromkeys(Reason, 0)
        self.head: TwinTicket | None = None  # for whom seats are saved up
        self.rounds: dict[TwinTicket, int] = {}  # of back-fill that each has begun
        self.passers: list[TwinTicket] = []  # who has been seated before the head in this round
        self.demanded = 0  # seats wanted, times the nanoseconds for which they were
        self._adopt(settings)

    def total(self, count: Callable[[TwinQueue], int]) -> int:
        """Of all queues, and of those who have none."""
        return sum(map(count, [*self.queues, self.queueless]))

    def next_event_at(self) -> int | None:
        return min((ticket.free_at for ticket in self.lingering), default=None)

    # Steps

    def arrive(self, now: int, ticket: TwinTicket) -> list[TwinTicket]:
        seated = self.tick(now)
        if self.is_quiescing:
            self._reject(ticket, Reason.QUEUE_CLOSED)
        elif self.settings.queues:
            self._join(ticket)
            if ticket.state is TicketState.WAITING:  # a rejection changes nothing for the others
                seated += self._dispatch(now)
        elif self.settings.exempt or (self.settings.concurrency and self._fits(ticket)):
            self._seat(now, ticket)
            seated.append(ticket)
        else:
            self._reject(ticket, Reason.CONCURRENCY_LIMIT)
        return seated

    def abandon(self, now: int, ticket: TwinTicket, reason: Reason) -> list[TwinTicket]:
        """Nothing happens to a ticket that has been seated by now."""
        seated = self.tick(now)
        if ticket.state is not TicketState.WAITING or ticket.queue is None:
            return seated
        ticket.queue.line.remove(ticket)
        self._reject(ticket, reason)
        ticket.queue.bound()
        self._close_surplus()
        return seated + self._dispatch(now)

    def release(self, now: int, ticket: TwinTicket) -> list[TwinTicket]:
        assert ticket.state is TicketState.SEATED
        assert ticket.seated_at is not None
        seated = self.tick(now)
        ticket.state = TicketState.LINGERING
        if ticket.queue is not None:
            ticket.queue.next_dispatch_r -= work(ticket.seats, self.guess_ns - (now - ticket.seated_at))
            ticket.queue.bound()
        if ticket.linger_ns:
            ticket.free_at = now + ticket.linger_ns
            self.lingering.append(ticket)
        else:
            self._vacate(ticket)
        return seated + self._dispatch(now)

    def reconfigure(self, now: int, settings: QueueSetSettings) -> list[TwinTicket]:
        seated = self.tick(now)
        self._adopt(settings)
        return seated + self._dispatch(now)

    # Time

    def tick(self, now: int) -> list[TwinTicket]:
        """Lingers that are due end first, each at its own time; then those are seated whom they made room for."""
        due = [ticket for ticket in self.lingering if ticket.free_at <= now]
        for ticket in sorted(due, key=lambda ticket: ticket.free_at):
            self._advance(ticket.free_at)
            self.lingering.remove(ticket)
            self._vacate(ticket)
        self._advance(now)
        return self._dispatch(now) if due else []

    def _advance(self, now: int) -> None:
        elapsed, self.now = now - self.now, now
        self.demanded += (self.total(TwinQueue.seats_in_use) + self.total(TwinQueue.seats_waiting)) * elapsed
        active = sum(queue.is_active() for queue in self.queues)
        if not active:
            return
        wanted = sum(queue.seats_in_use() + queue.seats_waiting() for queue in self.queues)
        self.r += work(min(wanted, self.settings.concurrency) / active, elapsed)
        if self.r >= HIGH_R:
            self._begin_epoch()

    def _begin_epoch(self) -> None:
        self.epochs += 1
        self.r -= R_DECREMENT
        for queue in self.queues:
            queue.next_dispatch_r = queue.next_dispatch_r - R_DECREMENT if queue.is_active() else 0
            for ticket in queue.line:
                ticket.arrival_r -= R_DECREMENT

    # Queues

    def _adopt(self, settings: QueueSetSettings) -> None:
        self.settings = settings
        there = {queue.index for queue in self.queues}
        self.queues += [TwinQueue(index) for index in range(settings.queues) if index not in there]
        self.queues.sort(key=lambda queue: queue.index)
        self._close_surplus()

    def _close_surplus(self) -> None:
        """Superfluous queues go when they are idle."""
        self.queues = [
            queue for queue in self.queues if queue.index < self.settings.queues or queue.line or queue.seated
        ]

    def _join(self, ticket: TwinTicket) -> None:
        """Take the queue of the hand with the least waiting work: of equals the first, from where the turn is."""
        hand = deal(ticket.entropy, self.settings.queues, self.settings.hand_size)
        turn = self.choices % len(hand)
        self.choices += 1
        at = {queue.index: queue for queue in self.queues}
        queue = min((at[card] for card in hand[turn:] + hand[:turn]), key=TwinQueue.work_waiting)
        ticket.queue = queue
        if queue.length() >= self.settings.queue_length_limit:
            self._reject(ticket, Reason.QUEUE_FULL)
            return
        if not queue.is_active():
            queue.next_dispatch_r = self.r
        ticket.total_work = work(ticket.seats, self.guess_ns) + work(ticket.final_seats, ticket.linger_ns)
        ticket.arrival_r = self.r
        ticket.state = TicketState.WAITING
        queue.line.append(ticket)
        queue.bound()

    def _next_queue(self, queues: Sequence[TwinQueue]) -> TwinQueue:
        """Visit all queues, beginning after the one served last; the first with the least virtual finish."""
        turn = sorted(queues, key=lambda queue: (queue.index <= self.robin_index, queue.index))
        return min(
            (queue for queue in turn if queue.line),
            key=lambda queue: queue.next_dispatch_r + queue.line[0].total_work,
        )

    # Seats

    def _fits(self, ticket: TwinTicket) -> bool:
        if ticket.width > self.settings.concurrency:
            return self.total(TwinQueue.executing) == 0
        return self.total(TwinQueue.seats_in_use) + ticket.width <= self.settings.concurrency

    def _dispatch(self, now: int) -> list[TwinTicket]:
        """As much as possible."""
        seated: list[TwinTicket] = []
        while self.total(TwinQueue.length) and self.total(TwinQueue.seats_in_use) < self.settings.concurrency:
            queue = self._next_queue(self.queues)
            ticket = queue.line[0]
            if not self._fits(ticket):
                self.no_accommodation += 1
                while (other := self._next_behind(ticket)) is not None:
                    self.passers.append(other.line[0])
                    seated.append(other.line[0])
                    self._seat_next(now, other)
                break
            self._seat_next(now, queue)
            seated.append(ticket)
        return seated

    def _seat_next(self, now: int, queue: TwinQueue) -> None:
        ticket = queue.line.pop(0)
        self.robin_index = queue.index
        self._seat(now, ticket)
        ticket.start_r = queue.next_dispatch_r + self.epochs * R_DECREMENT
        queue.next_dispatch_r += ticket.total_work
        queue.bound()

    def _next_behind(self, head: TwinTicket) -> TwinQueue | None:
        """Whose oldest ticket may be seated before ``head``, for which too few seats are free."""
        if not self.settings.backfill:
            return None
        self.passers = [one for one in self.passers if one.state in (TicketState.SEATED, TicketState.LINGERING)]
        in_use, limit = self.total(TwinQueue.seats_in_use), self.settings.concurrency
        without = in_use - sum(one.width for one in self.passers) + head.width <= limit
        if head.width > limit:
            without = self.total(TwinQueue.executing) <= len(self.passers)
        if head is not self.head or without:  # its turn begins, or a round of it ends
            self.head, self.passers = head, []
            self.rounds[head] = self.rounds.get(head, 0) + 1
        if self.rounds[head] > self.settings.backfill:
            return None
        narrow = [queue for queue in self.queues if queue.line and queue.line[0].width <= limit - in_use]
        return self._next_queue(narrow) if narrow else None

    def _seat(self, now: int, ticket: TwinTicket) -> None:
        concurrency = self.settings.concurrency
        if ticket.final_seats > concurrency and not self.settings.exempt:
            ticket.linger_ns = int(work(ticket.final_seats, ticket.linger_ns) / concurrency * 10)
            ticket.final_seats = concurrency
        ticket.state = TicketState.SEATED
        ticket.seated_at = now
        self.dispatched += 1
        (ticket.queue or self.queueless).seated.append(ticket)

    def _vacate(self, ticket: TwinTicket) -> None:
        ticket.state = TicketState.RELEASED
        (ticket.queue or self.queueless).seated.remove(ticket)
        self._close_surplus()

    def _reject(self, ticket: TwinTicket, reason: Reason) -> None:
        ticket.state = TicketState.REJECTED
        ticket.reason = reason
        self.rejected[reason] += 1


class Twins:
    """Our queue set and its twin on one clock, ``now``.

    Tickets are numbered in order of arrival, and a step returns the numbers of those that it seated. These and the
    meters are compared at each step; all the rest, and `QueueSet.check`, at every ``thorough``-th one.
    """

    def __init__(
        self, settings: QueueSetSettings, *, guess_ns: int = 3_000_000, initial_r: int = 0, thorough: int = 1
    ) -> None:
        self.now = self.steps = self.arrived = self.released = 0
        self.thorough = thorough
        self.discipline = UpstreamEqualSerial(settings.concurrency, guess_ns, initial_r=initial_r)
        self.queueset = QueueSet(settings, discipline=lambda _concurrency, _guess: self.discipline, guess_ns=guess_ns)
        self.twin = TwinQueueSet(settings, guess_ns, initial_r)
        self.tickets: dict[int, tuple[Ticket, TwinTicket]] = {}  # those that have not come to their end
        self._numbers: dict[Ticket | TwinTicket, int] = {}

    def numbers(self, state: TicketState) -> list[int]:
        """Of the tickets in this state, in order of arrival."""
        return [number for number, (_, ticket) in self.tickets.items() if ticket.state is state]

    def arrive(self, entropy: int, work: Work, weight: int = WEIGHT_ONE) -> list[int]:
        """Let a ticket arrive at both; the twin has no weights, because Kubernetes doesn't know any."""
        ours, twin = (
            Ticket("flow", entropy, work, weight),
            TwinTicket(entropy, work.seats, work.final_seats, work.linger_ns),
        )
        self.tickets[self.arrived] = ours, twin
        self._numbers[ours] = self._numbers[twin] = self.arrived
        self.arrived += 1
        return self._step(self.queueset.arrive(self.now, ours), self.twin.arrive(self.now, twin))

    def abandon(self, number: int, reason: Reason) -> list[int]:
        ours, twin = self.tickets[number]
        return self._step(self.queueset.abandon(self.now, ours, reason), self.twin.abandon(self.now, twin, reason))

    def release(self, number: int) -> list[int]:
        ours, twin = self.tickets[number]
        return self._step(self.queueset.release(self.now, ours), self.twin.release(self.now, twin))

    def tick(self) -> list[int]:
        return self._step(self.queueset.tick(self.now), self.twin.tick(self.now))

    def reconfigure(self, settings: QueueSetSettings) -> list[int]:
        return self._step(self.queueset.reconfigure(self.now, settings), self.twin.reconfigure(self.now, settings))

    def quiesce(self, *, reopen: bool) -> None:
        self.queueset.quiesce(reopen=reopen)
        self.twin.is_quiescing = not reopen

    def _step(self, seated: Sequence[Ticket], twin_seated: list[TwinTicket]) -> list[int]:
        numbers = [self._numbers[ticket] for ticket in seated]
        _same("seated", numbers, [self._numbers[ticket] for ticket in twin_seated])
        _same("R", self.discipline.current_r, self.twin.r)
        _same("last served", self.discipline.robin_index, self.twin.robin_index)
        _same("next event", self.queueset.next_event_at(), self.twin.next_event_at())
        _same("waiting", self.queueset.waiting, self.twin.total(TwinQueue.length))
        _same("seats in use", self.queueset.seats_in_use, self.twin.total(TwinQueue.seats_in_use))
        self.steps += 1
        if self.steps % self.thorough == 0:
            self.compare()
        return numbers

    def compare(self) -> None:
        """Everything that can be seen. Tickets that have come to their end are forgotten afterwards."""
        ours, twin, picture = self.queueset, self.twin, self.queueset.snapshot()
        ours.check()
        _same("now", picture.now, twin.now)
        _same("executing", ours.executing, twin.total(TwinQueue.executing))
        _same("lingering", picture.lingering, len(twin.lingering))
        _same("seats waiting", ours.seats_waiting, twin.total(TwinQueue.seats_waiting))
        _same("idle", ours.is_idle, not any(queue.line or queue.seated for queue in [*twin.queues, twin.queueless]))
        _same("active", self.discipline.active_queues, sum(queue.is_active() for queue in twin.queues))
        _same("epochs", self.discipline.epochs, twin.epochs)
        _same("choices", ours.deck.choices, twin.choices)
        _same("dispatched", ours.dispatched, twin.dispatched)
        _same("rejected", ours.rejected, twin.rejected)
        _same("no accommodation", ours.no_accommodation, twin.no_accommodation)
        if self.now:
            _same("average demand", ours.demand.results(self.now).average, twin.demanded / self.now)
        for queue, its_twin in zip(ours.deck, twin.queues, strict=True):
            self._compare_queues(queue, its_twin)
        for number in list(self.tickets):
            self._compare_tickets(number)

    def _compare_queues(self, ours: Queue, twin: TwinQueue) -> None:
        name = f"queue {twin.index}"
        _same(f"index of {name}", ours.index, twin.index)
        _same(f"line of {name}", [self._numbers[it] for it in ours], [self._numbers[it] for it in twin.line])
        _same(f"waiting work of {name}", ours.waiting_work, twin.work_waiting())
        _same(f"executing of {name}", ours.executing, twin.executing())
        _same(f"seats of {name}", ours.seats_in_use, twin.seats_in_use())
        assert isinstance(ours, UpstreamEqualSerialQueue)
        if twin.is_active():  # else nothing reads it, and upstream sets it to 0 now and then
            _same(f"meter of {name}", self.discipline.as_upstream(ours.next_dispatch_r), twin.next_dispatch_r)

    def _compare_tickets(self, number: int) -> None:
        ours, twin = self.tickets[number]
        for name in ("state", "reason", "width", "seated_at", "start_r"):
            _same(f"{name} of ticket {number}", getattr(ours, name, None), getattr(twin, name))
        for name in ("seats", "final_seats", "linger_ns"):
            _same(f"{name} of ticket {number}", getattr(ours.work, name), getattr(twin, name))
        _same(f"queue of ticket {number}", ours.queue and ours.queue.index, twin.queue and twin.queue.index)
        if twin.state in {TicketState.RELEASED, TicketState.REJECTED}:
            self.released += twin.state is TicketState.RELEASED
            del self.tickets[number], self._numbers[ours], self._numbers[twin]


def _same(what: str, ours: object, twin: object) -> None:
    assert ours == twin, f"{what}: {ours} here, {twin} in the twin"
