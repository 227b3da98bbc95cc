"""The oracles of the disciplines: what they promise, as plainly as it stands.

For the max-min disciplines these are the KEP's equations. What the KEP leaves open is decided here as there (see the
disciplines' modules): nothing ends virtually before it has ended, guesses are averages of what requests took and grow
by the level's, a request that leaves takes its demand along, a queue owes no more than C requests.

A plain twin keeps lists, looks at all of them for every question, and divides the seats anew with fractions each time.
It has no heaps, no categories and no common meter: every queue's meter is simply moved on by its share, divided by its
weight. From our code come only the interface and the grain in which meters are counted, because both must round alike
where they round: the meters of all queues that get less than they demand, to whole grains at each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf

from apf_middleware.fairqueuing import Discipline, Ticket
from apf_middleware.fairqueuing.disciplines.max_min_model import GRAINS_PER_UNIT, TICK_BITS
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.fairqueuing.work import GRAIN_BITS, WEIGHT_ONE, seat_seconds

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
    exact_end: Fraction = Fraction(0)  # it is rounded down only after all changes of the weight
    is_gone: bool = False  # out of the real world: its seats are free


class PlainQueue(Queue):
    """A queue whose stays are a plain list in order of arrival; ``known_end`` is where those of known length end."""

    __slots__ = ("exact", "guess_ns", "known_end", "stays")

    def __init__(self, index: int, guess_ns: int) -> None:
        super().__init__(index)
        self.guess_ns = guess_ns
        self.stays: list[Stay] = []
        self.exact = Fraction(0)
        self.known_end = 0

    @property
    def position(self) -> int:
        return floor(self.exact)

    def weighed(self, work: Fraction | int) -> Fraction:
        """Return how far the meter moves for this work."""
        return Fraction(work) * WEIGHT_ONE / self.weight

    def running_work(self) -> int:
        works = (stay.work for stay in self.stays if stay.seated_at is not None and stay.end is None)
        return sum(works) * GRAINS_PER_UNIT

    @property
    def next_start(self) -> int:
        return self.known_end + floor(self.weighed(self.running_work()))

    @next_start.setter
    def next_start(self, position: int) -> None:
        self.known_end = position - floor(self.weighed(self.running_work()))

    def way_to(self, position: int, share: Fraction) -> Fraction:
        """Return the way to a position. A queue with less than it demands is where the grains are that it has got."""
        return position - (self.exact if share == self.rho else Fraction(self.position))

    @property
    def rho(self) -> int:
        return sum(stay.width for stay in self.stays)

    def stay_of(self, ticket: Ticket) -> Stay | None:
        return next((stay for stay in self.stays if stay.ticket is ticket), None)


def max_min_shares(capacity: int, demands: Sequence[int], weights: Sequence[int] = ()) -> list[Fraction]:
    """min(rho, weight * theta) for each: the least for their weight are met in full while what is left allows it."""
    return [*_divide(capacity, tuple(demands), tuple(weights or [1] * len(demands)))]


@lru_cache(maxsize=4096)  # in nine of ten cases, the twins ask again for what they know
def _divide(capacity: int, demands: tuple[int, ...], weighed: tuple[int, ...]) -> Sequence[Fraction]:
    shares = [Fraction(0)] * len(demands)
    left, others = Fraction(capacity), sum(weighed)
    for place in sorted(range(len(demands)), key=lambda place: Fraction(demands[place], weighed[place])):
        shares[place] = min(Fraction(demands[place]), left * weighed[place] / others)
        left -= shares[place]
        others -= weighed[place]
    return shares


class PlainMaxMinSerial(Discipline[PlainQueue]):
    """`max-min-serial` in O(n)."""

    name = "max-min-serial"
    is_restless = True
    is_weighted = True

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
        demands, weights = [queue.rho for queue in asking], [queue.weight for queue in asking]
        return dict(zip(asking, max_min_shares(self.capacity(), demands, weights), strict=True))

    def advance(self, elapsed_ns: int, demand: int) -> None:  # noqa: ARG002 - as the interface
        until = self.now + elapsed_ns
        while True:
            shares = self.shares()
            waits = [
                ceil(queue.way_to(stay.end, share) / queue.weighed(share) / GRAINS_PER_SEAT_NS)
                for queue, share in shares.items()
                for stay in queue.stays
                if share and stay.is_gone and stay.end is not None
            ]
            step = min([until - self.now, *waits])
            self.now += step
            for queue, share in shares.items():
                self.move(queue, share, step)
                queue.stays = [stay for stay in queue.stays if not self.is_over(queue, stay)]
            if self.now == until:
                break
        self.outgrow()

    @staticmethod
    def move(queue: PlainQueue, share: Fraction, elapsed_ns: int) -> None:
        way = queue.weighed(share) * elapsed_ns * GRAINS_PER_SEAT_NS
        queue.exact += way if share == queue.rho else floor(way)

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
        most = self.concurrency * max(known, seat_seconds(ticket.work.seats, self.guess_ns))
        end = queue.known_end + floor(queue.weighed(known * GRAINS_PER_UNIT))
        stay.end = queue.known_end = min(end, queue.position + floor(queue.weighed(most * GRAINS_PER_UNIT)))
        stay.exact_end = Fraction(stay.end)
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

    def reweigh(self, queue: PlainQueue, weight: int) -> None:
        """Let all ends be ahead by the same work; what is owed becomes neither more work nor a longer way."""
        position, former, way = queue.position, queue.weight, queue.next_start - queue.position
        if way > 0 or weight > former:
            way = way * former // weight
        for stay in queue.stays:
            if stay.end is not None:
                stay.exact_end = position + (stay.exact_end - position) * former / weight
                stay.end = floor(stay.exact_end)
        queue.exact = Fraction(position)
        queue.weight = weight
        queue.next_start = position + way

    def resize(self, concurrency: int) -> None:
        self.concurrency = concurrency

    def close(self, queue: PlainQueue, *, closing_up: bool) -> None:
        self.queues.remove(queue)
        self.orphans += [stay for stay in queue.stays if stay.seated_at is not None and not stay.is_gone]
        queue.stays.clear()
        if closing_up and self.turn >= queue.index:
            self.turn -= 1

    # The question

    def expected_end(self, queue: PlainQueue, shares: dict[PlainQueue, Fraction]) -> tuple[float, Fraction]:
        """When the queue's oldest ticket would end: in ticks, or never, and then by the work that is left."""
        share = shares[queue]
        left = queue.way_to(self.last_end(queue), share)
        if not share:
            return inf, left
        wait = floor(left * TICKS_PER_NS / queue.weighed(share) / GRAINS_PER_SEAT_NS)
        # the limited among themselves by their work
        return self.now * TICKS_PER_NS + wait, left if share < queue.rho else Fraction(0)

    def last_end(self, queue: PlainQueue) -> int:
        """Where the queue's meter is at the end of its oldest waiting ticket."""
        assert queue.oldest is not None
        work = queue.oldest.work.total(self.first_guess_ns) * GRAINS_PER_UNIT
        return queue.next_start + floor(queue.weighed(work))

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
        return self.progress_then + (self.position - self.since) * self.weight // (WEIGHT_ONE * self.occupied)

    def occupy(self, seats: int) -> None:
        self.progress_then, self.since = self.progress(), self.position
        self.occupied += seats

    def when(self, progress: int) -> int:
        """Where the work meter is when P comes to ``progress``."""
        return self.since + ceil(self.weighed(self.occupied * (progress - self.progress_then)))

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
                max(0, ceil(queue.way_to(queue.when(stay.until), share) / queue.weighed(share) / GRAINS_PER_SEAT_NS))
                for queue, share in shares.items()
                if isinstance(queue, PlainConcurrentQueue) and share
                for stay in queue.running()
            ]
            step = min([until - self.now, *ends])
            self.now += step
            for queue, share in shares.items():
                self.move(queue, share, step)
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

    def reweigh(self, queue: PlainQueue, weight: int) -> None:
        assert isinstance(queue, PlainConcurrentQueue)
        queue.occupy(0)
        queue.exact = Fraction(queue.position)
        queue.weight = weight

    def last_end(self, queue: PlainQueue) -> int:
        assert queue.oldest is not None
        stay = queue.stay_of(queue.oldest)
        assert isinstance(stay, VirtualStay)
        assert isinstance(queue, PlainConcurrentQueue)
        begin = min(other.until for other in queue.running()) if stay.begin is None else stay.begin
        return queue.when(begin + self.first_guess_ns * GRAINS_PER_SEAT_NS)


@dataclass(eq=False)
class Run:
    """A ticket whose seats are in use, and when they began to count."""

    ticket: Ticket
    width: int
    began: int


class AttainingQueue(Queue):
    """A queue, the seat-time of its requests that are over, and those that have seats; ``base`` is where it began."""

    __slots__ = ("base", "finished", "guess_ns", "runs")

    def __init__(self, index: int, base: int, guess_ns: int) -> None:
        super().__init__(index)
        self.base = base
        self.finished = 0
        self.guess_ns = guess_ns
        self.runs: list[Run] = []

    def running(self, now: int) -> int:
        return sum(run.width * (now - run.began) for run in self.runs)

    def attained(self, now: int) -> int:
        return self.base + (self.finished + self.running(now)) * WEIGHT_ONE // self.weight

    def meter(self, now: int) -> int:
        """Return the service attained by ``now``; running requests count for the guess at least."""
        guessed = sum(run.width for run in self.runs) * self.guess_ns
        return self.base + (self.finished + max(guessed, self.running(now))) * WEIGHT_ONE // self.weight


class PlainEqualSerial(Discipline[AttainingQueue]):
    """`equal-serial` in O(n): all meters are read for each question, and all are set when competition begins."""

    name = "equal-serial"
    is_weighted = True

    def __init__(self, concurrency: int, guess_ns: int) -> None:
        self.concurrency = concurrency
        self.guess_ns = guess_ns
        self.served_at = self.served_r = 0
        self.served_weight = WEIGHT_ONE
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
            least = self.virtual_time()
            if least != self.joined_at:
                self.joined = 0
        else:
            least = self.first_r = self.served_r = self.r
            self.served_at = self.now
            self.joined = 0
            for other in self.queues:
                other.base, other.finished = self.r, 0
                for run in other.runs:
                    run.began = self.now
        self.joined_at = least
        behind = least - queue.meter(self.now)
        if behind >= 0:
            self.joined += 1
            queue.base += behind + self.joined

    def virtual_time(self) -> int:
        """Return what the next queue has attained, or the last one, and all seats since, if that is less."""
        following = next(other for other in self.queues if other.index == self.pick()).attained(self.now)
        since = (self.now - self.served_at) * self.concurrency
        return min(following, self.served_r + since * WEIGHT_ONE // self.served_weight)

    def reweigh(self, queue: AttainingQueue, weight: int) -> None:
        """Let the queue be ahead by the same work; what it is owed becomes neither more work nor more on its meter."""
        former, queue_was = queue.weight, queue.attained(self.now)
        if self.is_contended():
            least = self.virtual_time()
            lead = queue_was - least
            if lead > 0 or weight > former:
                lead = lead * former // weight
            queue.finished = 0
            queue.base = least + lead - queue.running(self.now) * WEIGHT_ONE // weight
        queue.weight = weight
        if queue.length:
            self.read_at = self.now

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
        self.served_at, self.served_r, self.served_weight = self.now, queue.attained(self.now), queue.weight
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
