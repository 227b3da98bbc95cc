"""The oracles of the disciplines: what they promise, as plainly as it stands.

For the max-min disciplines these are the KEP's equations. What the KEP leaves open is decided here as there (see the
disciplines' modules): nothing ends virtually before it has ended, guesses are averages of what requests took and grow
by the level's, a request that leaves takes its demand along, a queue owes no more than C requests.

A plain twin keeps lists, looks at all of them for every question, and divides the seats anew with fractions each time.
It has no heaps, no categories and no common meter: every queue's meter is simply moved on by its share. From our code
come only the interface and the grain in which meters are counted, because both must round alike where they round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf

from apf_middleware.fairqueuing import Discipline, Ticket
from apf_middleware.fairqueuing.disciplines.max_min_model import GRAIN_BITS, GRAINS_PER_UNIT, TICK_BITS
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.fairqueuing.work import seat_seconds

GRAINS_PER_SEAT_NS = 1 << GRAIN_BITS
TICKS_PER_NS = 1 << TICK_BITS


@dataclass(eq=False)
class Stay:
    """What a twin knows of one ticket."""

    ticket: Ticket
    width: int
    work: int  # in units of 1e-8 seat-seconds, the guess included
    arrived_at: int  # a position on the queue's meter
    seated_at: int | None = None
    guess_ns: int = 0
    end: int | None = None  # once its length is known
    is_gone: bool = False  # out of the real world: its seats are free


class PlainQueue(Queue):
    """A queue whose stays are a plain list in order of arrival."""

    __slots__ = ("guess_ns", "next_start", "position", "stays")

    def __init__(self, index: int, guess_ns: int) -> None:
        super().__init__(index)
        self.guess_ns = guess_ns
        self.stays: list[Stay] = []
        self.position = 0
        self.next_start = 0

    @property
    def rho(self) -> int:
        return sum(stay.width for stay in self.stays)

    def stay_of(self, ticket: Ticket) -> Stay | None:
        return next((stay for stay in self.stays if stay.ticket is ticket), None)


def max_min_shares(capacity: int, demands: Sequence[int]) -> list[Fraction]:
    """min(rho, mu_fair) for each: the least are met in full while what is left allows it."""
    shares = [Fraction(0)] * len(demands)
    left = Fraction(capacity)
    order = sorted(range(len(demands)), key=demands.__getitem__)
    for rank, place in enumerate(order):
        shares[place] = min(Fraction(demands[place]), left / (len(demands) - rank))
        left -= shares[place]
    return shares


class PlainMaxMinSerial(Discipline[PlainQueue]):
    """`max-min-serial` in O(n)."""

    name = "max-min-serial"
    is_restless = True

    def __init__(self, concurrency: int, guess_ns: int) -> None:
        self.concurrency = concurrency
        self.guess_ns = self.first_guess_ns = guess_ns
        self.now = 0
        self.turn = 0
        self.queues: list[PlainQueue] = []
        self.orphans: list[Stay] = []  # upstream closes queues whose seats linger

    def open_queue(self, index: int) -> PlainQueue:
        queue = PlainQueue(index, self.guess_ns)
        self.queues = [other for other in self.queues if other.index != index]
        self.queues.append(queue)
        self.queues.sort(key=lambda other: other.index)
        return queue

    # The equations

    def capacity(self) -> int:
        used = sum(
            stay.width
            for queue in self.queues
            for stay in queue.stays
            if stay.seated_at is not None and not stay.is_gone
        )
        return max(self.concurrency, used + sum(stay.width for stay in self.orphans))

    def shares(self) -> dict[PlainQueue, Fraction]:
        """Return the part of each queue that wants any."""
        asking = [queue for queue in self.queues if queue.rho]
        return dict(zip(asking, max_min_shares(self.capacity(), [queue.rho for queue in asking]), strict=True))

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - as the interface
        until = self.now + elapsed_ns
        while True:
            shares = self.shares()
            waits = [
                ceil(Fraction(stay.end - queue.position) / share / GRAINS_PER_SEAT_NS)
                for queue, share in shares.items()
                for stay in queue.stays
                if share and stay.is_gone and stay.end is not None
            ]
            step = min([until - self.now, *waits])
            self.now += step
            for queue, share in shares.items():
                queue.position += floor(share * step * GRAINS_PER_SEAT_NS)
                queue.stays = [stay for stay in queue.stays if not self.is_over(queue, stay)]
            if self.now == until:
                break
        self.outgrow()

    @staticmethod
    def is_over(queue: PlainQueue, stay: Stay) -> bool:
        return stay.is_gone and stay.end is not None and stay.end <= queue.position

    def longer(self, guess_ns: int) -> int:
        """Return the guess that follows ``guess_ns`` when that was too short."""
        return guess_ns + max(self.guess_ns, guess_ns // 16)

    def learn(self, queue: PlainQueue, took_ns: int) -> None:
        """Average what requests took, for the queue and for the level."""
        self.guess_ns = max(1, self.guess_ns + (took_ns - self.guess_ns) // 16)
        queue.guess_ns = max(1, queue.guess_ns + (took_ns - queue.guess_ns) // 4)

    def outgrow(self) -> None:
        """Raise the guesses of requests that have run for longer."""
        for queue in self.queues:
            for stay in queue.stays:
                while stay.seated_at is not None and stay.end is None and self.now > stay.seated_at + stay.guess_ns:
                    seats = stay.ticket.work.seats
                    longer = self.longer(stay.guess_ns)
                    more = seat_seconds(seats, longer) - seat_seconds(seats, stay.guess_ns)
                    stay.guess_ns = longer
                    stay.work += more
                    queue.next_start += more * GRAINS_PER_UNIT

    # What happens

    def arrive(self, queue: PlainQueue, ticket: Ticket) -> None:
        if not queue.length:
            queue.next_start = max(queue.next_start, queue.position)
        queue.stays.append(Stay(ticket, ticket.width, 0, queue.position))

    def rejoin(self, queue: PlainQueue, ticket: Ticket) -> None:
        """Pay a request that arrived before those behind it what is owed to them."""
        stay, newer = queue.stay_of(ticket), queue.stay_of(ticket.newer) if ticket.newer is not None else None
        if stay is not None and newer is not None:
            stay.arrived_at = min(stay.arrived_at, newer.arrived_at)
        self.lift(queue)

    def serve(self, queue: PlainQueue, ticket: Ticket) -> None:
        self.arrive(queue, ticket)
        self.dispatch(queue, ticket)

    def dispatch(self, queue: PlainQueue, ticket: Ticket) -> None:
        stay = queue.stay_of(ticket)
        assert stay is not None
        stay.width = ticket.width
        stay.seated_at, stay.guess_ns = self.now, queue.guess_ns
        stay.work = ticket.work.total(queue.guess_ns)
        queue.next_start += stay.work * GRAINS_PER_UNIT
        self.turn = queue.index
        self.lift(queue)

    def lift(self, queue: PlainQueue) -> None:
        """Keep a ticket from starting before it has arrived."""
        oldest = queue.stay_of(queue.oldest) if queue.oldest is not None else None
        if oldest is not None:
            queue.next_start = max(queue.next_start, oldest.arrived_at)

    def leave(self, queue: PlainQueue, ticket: Ticket, *, was_oldest: bool) -> None:  # noqa: ARG002 - as the interface
        queue.stays = [stay for stay in queue.stays if stay.ticket is not ticket]
        self.lift(queue)

    def settle(self, queue: PlainQueue, ticket: Ticket, duration_ns: int) -> None:
        stay = queue.stay_of(ticket)
        assert stay is not None
        known = seat_seconds(ticket.work.seats, duration_ns) + ticket.work.final_work
        queue.next_start += (known - stay.work) * GRAINS_PER_UNIT
        running = sum(other.work for other in queue.stays if other.seated_at is not None and other.end is None)
        behind = (running - stay.work) * GRAINS_PER_UNIT
        work = max(known, seat_seconds(ticket.work.seats, self.guess_ns)) * GRAINS_PER_UNIT
        stay.end = min(queue.next_start - behind, queue.position + self.concurrency * work)
        queue.next_start = stay.end + behind
        self.learn(queue, duration_ns)
        self.lift(queue)
        if not ticket.work.linger_ns:
            self.vacate(queue, ticket)

    def vacate(self, queue: PlainQueue, ticket: Ticket) -> None:
        stay = queue.stay_of(ticket)
        if stay is None:
            self.orphans = [other for other in self.orphans if other.ticket is not ticket]
            return
        stay.is_gone = True
        if self.is_over(queue, stay):
            queue.stays.remove(stay)

    def resize(self, concurrency: int) -> None:
        self.concurrency = concurrency

    def close(self, queue: PlainQueue, *, closing_up: bool) -> None:
        self.queues.remove(queue)
        self.orphans += [stay for stay in queue.stays if stay.seated_at is not None and not stay.is_gone]
        queue.stays.clear()
        if closing_up and self.turn >= queue.index:
            self.turn -= 1

    # The question

    def expected_end(self, queue: PlainQueue, shares: dict[PlainQueue, Fraction]) -> tuple[float, int]:
        """When the queue's oldest ticket would end: in ticks, or never, and then by the work that is left."""
        left = self.left(queue)
        if not shares[queue]:
            return inf, left
        expected = self.now * TICKS_PER_NS + floor(Fraction(left) * TICKS_PER_NS / shares[queue] / GRAINS_PER_SEAT_NS)
        return expected, left if shares[queue] < queue.rho else 0  # the limited among themselves by their work

    def left(self, queue: PlainQueue) -> int:
        """How far the queue's meter is from the end of its oldest waiting ticket."""
        assert queue.oldest is not None
        return queue.next_start + queue.oldest.work.total(self.first_guess_ns) * GRAINS_PER_UNIT - queue.position

    def pick(self, widest: int | None = None) -> int:
        waiting = [
            queue
            for queue in self.queues
            if queue.oldest is not None and (widest is None or queue.oldest.width <= widest)
        ]
        if not waiting:
            raise LookupError("nobody waits")
        shares = self.shares()
        granted = [queue for queue in waiting if shares[queue] == queue.rho]
        limited = [queue for queue in waiting if shares[queue] < queue.rho]
        firsts = [
            min(some, key=lambda q: (*self.expected_end(q, shares), self.round(q)))
            for some in (granted, limited)
            if some
        ]
        return min(firsts, key=lambda queue: (self.expected_end(queue, shares)[0], self.round(queue))).index

    def round(self, queue: PlainQueue) -> tuple[bool, int]:
        """Return the next queue in turn after the one served last."""
        return queue.index <= self.turn, queue.index

    def meters(self) -> dict[str, int]:
        return {}

    def check(self) -> None:
        """Nothing is kept that could disagree."""


@dataclass(eq=False)
class VirtualStay(Stay):
    """One that runs in the virtual world from ``begin`` to ``until``, positions on its queue's P."""

    begin: int | None = None
    until: int = 0


class PlainConcurrentQueue(PlainQueue):
    """P is a straight line on the work meter since ``occupied`` changed last."""

    __slots__ = ("occupied", "progress_then", "since")

    def __init__(self, index: int, guess_ns: int) -> None:
        super().__init__(index, guess_ns)
        self.occupied = self.progress_then = self.since = 0

    def progress(self) -> int:
        if not self.occupied:
            return self.progress_then
        return self.progress_then + (self.position - self.since) // self.occupied

    def occupy(self, seats: int) -> None:
        self.progress_then, self.since = self.progress(), self.position
        self.occupied += seats

    def when(self, progress: int) -> int:
        """Where the work meter is when P comes to ``progress``."""
        return self.since + self.occupied * (progress - self.progress_then)

    def running(self) -> list[VirtualStay]:
        return [stay for stay in self.stays if isinstance(stay, VirtualStay) and stay.begin is not None]


class PlainMaxMinConcurrent(PlainMaxMinSerial):
    """`max-min-concurrent` in O(n + c)."""

    name = "max-min-concurrent"

    def open_queue(self, index: int) -> PlainQueue:
        queue = PlainConcurrentQueue(index, self.guess_ns)
        self.queues = sorted([*(other for other in self.queues if other.index != index), queue], key=lambda q: q.index)
        return queue

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - as the interface
        until = self.now + elapsed_ns
        while True:
            shares = self.shares()
            ends = [
                (max(0, ceil(Fraction(queue.when(stay.until) - queue.position) / share / GRAINS_PER_SEAT_NS)))
                for queue, share in shares.items()
                if isinstance(queue, PlainConcurrentQueue) and share
                for stay in queue.running()
            ]
            step = min([until - self.now, *ends])
            self.now += step
            for queue, share in shares.items():
                queue.position += floor(share * step * GRAINS_PER_SEAT_NS)
            if not self.end_what_is_due() and self.now == until:
                break

    def end_what_is_due(self) -> bool:
        """Whether anything ended, or would have if its length were known."""
        due = [
            (queue, stay)
            for queue in self.queues
            if isinstance(queue, PlainConcurrentQueue) and queue in self.shares()
            for stay in queue.running()
            if stay.until <= queue.progress()
        ]
        for queue, stay in due:
            if stay.is_gone:
                self.take_out(queue, stay)
            else:
                assert stay.begin is not None
                guess_ns = (stay.until - stay.begin) // GRAINS_PER_SEAT_NS
                stay.until = stay.begin + self.longer(guess_ns) * GRAINS_PER_SEAT_NS
        return bool(due)

    def take_out(self, queue: PlainConcurrentQueue, stay: VirtualStay) -> None:
        if stay.begin is not None:
            queue.occupy(-stay.width)
        queue.stays.remove(stay)
        self.start_next(queue)

    def start_next(self, queue: PlainConcurrentQueue) -> None:
        """In order of arrival, while less than the level's seats are occupied."""
        for stay in queue.stays:
            if isinstance(stay, VirtualStay) and stay.begin is None and queue.occupied < max(1, self.concurrency):
                queue.occupy(stay.width)
                stay.begin = queue.progress()
                is_known = stay.is_gone and stay.end is not None
                stay.until = stay.begin + (stay.end or 0 if is_known else self.guess(queue, stay))

    @staticmethod
    def guess(queue: PlainQueue, stay: Stay) -> int:
        """Return what the request counts as until its seats are free."""
        return (queue.guess_ns + stay.ticket.work.linger_ns) * GRAINS_PER_SEAT_NS

    def arrive(self, queue: PlainQueue, ticket: Ticket) -> None:
        assert isinstance(queue, PlainConcurrentQueue)
        queue.stays.append(VirtualStay(ticket, ticket.width, 0, 0))
        self.start_next(queue)

    def dispatch(self, queue: PlainQueue, ticket: Ticket) -> None:
        stay = queue.stay_of(ticket)
        assert isinstance(stay, VirtualStay)
        assert isinstance(queue, PlainConcurrentQueue)
        if stay.begin is not None and ticket.width != stay.width:
            queue.occupy(ticket.width - stay.width)
        stay.width = ticket.width
        self.start_next(queue)
        stay.seated_at = self.now
        self.turn = queue.index

    def leave(self, queue: PlainQueue, ticket: Ticket, *, was_oldest: bool) -> None:  # noqa: ARG002 - as the interface
        stay = queue.stay_of(ticket)
        assert isinstance(stay, VirtualStay)
        assert isinstance(queue, PlainConcurrentQueue)
        self.take_out(queue, stay)

    def settle(self, queue: PlainQueue, ticket: Ticket, duration_ns: int) -> None:
        stay = queue.stay_of(ticket)
        assert stay is not None
        stay.end = (duration_ns + ticket.work.linger_ns) * GRAINS_PER_SEAT_NS
        self.learn(queue, duration_ns)
        if not ticket.work.linger_ns:
            self.vacate(queue, ticket)

    def vacate(self, queue: PlainQueue, ticket: Ticket) -> None:
        stay = queue.stay_of(ticket)
        if stay is None:
            self.orphans = [other for other in self.orphans if other.ticket is not ticket]
            return
        assert isinstance(stay, VirtualStay)
        assert isinstance(queue, PlainConcurrentQueue)
        stay.is_gone = True
        if stay.begin is None and self.owed(queue) > self.concurrency:
            queue.stays.remove(stay)
        elif stay.begin is not None and stay.end is not None:
            stay.until = stay.begin + stay.end
            if stay.until <= queue.progress():
                self.take_out(queue, stay)

    @staticmethod
    def owed(queue: PlainConcurrentQueue) -> int:
        """Return the width of the requests that are over and have not begun virtually."""
        stays = [stay for stay in queue.stays if isinstance(stay, VirtualStay)]
        return sum(stay.width for stay in stays if stay.is_gone and stay.begin is None)

    def resize(self, concurrency: int) -> None:
        self.concurrency = concurrency
        for queue in self.queues:
            if isinstance(queue, PlainConcurrentQueue):
                self.start_next(queue)

    def left(self, queue: PlainQueue) -> int:
        assert queue.oldest is not None
        stay = queue.stay_of(queue.oldest)
        assert isinstance(stay, VirtualStay)
        assert isinstance(queue, PlainConcurrentQueue)
        begin = min(other.until for other in queue.running()) if stay.begin is None else stay.begin
        return queue.when(begin + self.first_guess_ns * GRAINS_PER_SEAT_NS) - queue.position


@dataclass(eq=False)
class Run:
    """A ticket whose seats are in use, and when they began to count."""

    ticket: Ticket
    width: int
    began: int


class AttainingQueue(Queue):
    """A queue, the seat-time of its requests that are over, and those that have seats."""

    __slots__ = ("finished", "guess_ns", "runs")

    def __init__(self, index: int, finished: int, guess_ns: int) -> None:
        super().__init__(index)
        self.finished = finished
        self.guess_ns = guess_ns
        self.runs: list[Run] = []

    def attained(self, now: int) -> int:
        return self.finished + sum(run.width * (now - run.began) for run in self.runs)

    def meter(self, now: int) -> int:
        """Return the service attained by ``now``; running requests count for the guess at least."""
        guessed = sum(run.width for run in self.runs) * self.guess_ns
        return self.finished + max(guessed, self.attained(now) - self.finished)


class PlainEqualSerial(Discipline[AttainingQueue]):
    """`equal-serial` in O(n): all meters are read for each question, and all are set when competition begins."""

    name = "equal-serial"

    def __init__(self, concurrency: int, guess_ns: int) -> None:
        self.concurrency = concurrency
        self.guess_ns = guess_ns
        self.served_at = self.served_r = 0
        self.now = self.read_at = self.turn = 0
        self.r = self.first_r = 0
        self.joined = self.joined_at = 0
        self.queues: list[AttainingQueue] = []

    def open_queue(self, index: int) -> AttainingQueue:
        queue = AttainingQueue(index, self.first_r, self.guess_ns)
        self.queues = sorted([*(other for other in self.queues if other.index != index), queue], key=lambda q: q.index)
        return queue

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002
        self.now += elapsed_ns

    def is_contended(self) -> bool:
        return any(queue.length for queue in self.queues)

    def arrive(self, queue: AttainingQueue, ticket: Ticket) -> None:  # noqa: ARG002
        if queue.length:
            return
        self.read_at = self.now
        if self.is_contended():
            following = next(other for other in self.queues if other.index == self.pick()).attained(self.now)
            least = min(following, self.served_r + (self.now - self.served_at) * self.concurrency)
            if least != self.joined_at:
                self.joined = 0
        else:
            least = self.first_r = self.served_r = self.r
            self.served_at = self.now
            self.joined = 0
            for other in self.queues:
                other.finished = self.r
                for run in other.runs:
                    run.began = self.now
        self.joined_at = least
        behind = least - queue.meter(self.now)
        if behind >= 0:
            self.joined += 1
            queue.finished += behind + self.joined

    def rejoin(self, queue: AttainingQueue, ticket: Ticket) -> None:
        if queue.oldest is ticket:
            self.read_at = self.now

    def serve(self, queue: AttainingQueue, ticket: Ticket) -> None:
        queue.runs.append(Run(ticket, ticket.width, self.now))
        self.turn = queue.index

    def leave(self, queue: AttainingQueue, ticket: Ticket, *, was_oldest: bool) -> None:  # noqa: ARG002
        if was_oldest:
            self.read_at = self.now

    def dispatch(self, queue: AttainingQueue, ticket: Ticket) -> None:
        self.read_at = self.now
        self.served_at, self.served_r = self.now, queue.attained(self.now)
        self.r = max(self.r, self.served_r)
        self.serve(queue, ticket)

    def settle(self, queue: AttainingQueue, ticket: Ticket, duration_ns: int) -> None:
        if self.is_contended():
            self.read_at = self.now
            held = self.now - ticket.seated_at
            queue.guess_ns += (held - queue.guess_ns) // 4
            self.guess_ns += (held - self.guess_ns) // 16
            queue.finished += ticket.work.seats * (duration_ns - held)
        if not ticket.work.linger_ns:
            self.vacate(queue, ticket)

    def vacate(self, queue: AttainingQueue, ticket: Ticket) -> None:
        if self.is_contended():
            self.read_at = self.now
        run = next(run for run in queue.runs if run.ticket is ticket)
        queue.finished += run.width * (self.now - run.began)
        queue.runs.remove(run)

    def resize(self, concurrency: int) -> None:
        self.concurrency = concurrency

    def close(self, queue: AttainingQueue, *, closing_up: bool) -> None:
        self.queues.remove(queue)
        if closing_up and self.turn >= queue.index:
            self.turn -= 1

    def pick(self, widest: int | None = None) -> int:
        waiting = [
            queue
            for queue in self.queues
            if queue.oldest is not None and (widest is None or queue.oldest.width <= widest)
        ]
        if not waiting:
            raise LookupError("no request waits")
        return min(waiting, key=lambda q: (q.meter(self.read_at), q.index <= self.turn, q.index)).index

    def meters(self) -> dict[str, int]:
        return {}

    def check(self) -> None:
        """Nothing is kept that could disagree."""
