"""A fleet in virtual time, over a network that delays, loses, repeats and reorders messages.

Each member has flows with a constant number of requests that run or wait. It begins requests as its limit allows, in
turns of its levels and flows by their weights, and a request runs for a random time. Members and allocators can crash;
they can pause, which stops their process but not the requests. Each process has a clock of its own.

An allocator can be replaced while it is alive. What the store must guarantee then is in `SimulatedAllocator`.
"""

import heapq
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.fleet.allocator import Allocator
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.membership import Membership
from apf_middleware.fleet.messages import FlowTable, Grant, LevelUsage, Report, read_message, write

__all__ = ["MS", "SECOND", "FleetWorld", "LocalClock", "Network", "SimulatedAllocator", "SimulatedMember"]

MS: Final = 10**6
SECOND: Final = 10**9

HeldCall = tuple[int, Callable[..., None], tuple[object, ...]]
"""The time, the method and the arguments of a call that has to wait."""

ONE_LEVEL: Final = {"web": SeatDemand(1, 0)}


@dataclass(frozen=True)
class Network:
    """The delays of messages, in milliseconds, and the probabilities that one is lost or repeated."""

    delay_ms: tuple[float, float] = (0.1, 1.0)
    lost: float = 0.0
    repeated: float = 0.0
    slow: float = 0.0  # the probability of a delay of up to two leases


@dataclass(frozen=True)
class LocalClock:
    """A clock with an ``offset``, which gains ``ppm`` millionths."""

    offset: int = 0
    ppm: int = 0

    def at(self, now: int) -> int:
        return self.offset + now + (now * self.ppm // 10**6 if self.ppm else 0)


class SimulatedMember:
    """One member: ``wanted`` are the requests of each flow that run or wait, and ``running`` those that run.

    ``outlived`` are the requests that ran when a lease of the member ended.
    """

    def __init__(self, world: "FleetWorld", name: str, wanted: Mapping[int, int]) -> None:
        self.world = world
        self.name = name
        self.clock = world.draw_clock()
        self.membership = Membership(name, lease_ns=world.lease_ns, floor=world.floor)
        self.wanted = dict(wanted)
        self.running: dict[int, int] = {}
        self.served: dict[int, int] = {}
        self.requests: set[int] = set()
        self.levels: dict[int, str] = {}  # of its requests
        self.outlived: set[int] = set()
        self.finish: dict[int, float] = {}  # of its last request, in virtual time
        self.virtual_times: dict[str, float] = {}  # of each level's flows
        self.level_finish: dict[str, float] = {}
        self.level_time = 0.0
        self.is_paused = self.has_crashed = self.is_cut_off = False
        self.held: list[HeldCall] = []
        self.asked_at = -SECOND
        self.told: list[int] = []

    @property
    def now(self) -> int:
        return self.clock.at(self.world.now)

    @property
    def in_use(self) -> int:
        return len(self.requests)

    @property
    def seats(self) -> int:
        """The limit in force."""
        return self.membership.seats(self.now)

    @property
    def most_used(self) -> int:
        """The seats that it uses or may use, without those of requests beyond the floor that have outlived a lease."""
        used = len(self.requests)
        if self.outlived:
            used -= max(0, len(self.outlived) - self.membership.floor)
        return max(self.seats, used)

    def note_lapse(self) -> None:
        """Note which requests have outlived a lease that has ended."""
        if self.requests and self.now >= self.membership.limit.lease_until:
            self.outlived |= self.requests

    # Requests

    def begin(self) -> None:
        """Begin requests, as far as the limit allows."""
        if self.is_paused or self.has_crashed:
            return
        while self.in_use < self.seats and (flow := self.next_flow()) is not None:
            level = self.world.level_of(flow)
            duration = self.world.draw_duration()
            start = self.flow_start(flow)
            self.virtual_times[level], self.finish[flow] = start, start + duration / self.weight(flow)
            self.level_time = self.level_start(level)
            self.level_finish[level] = self.level_time + duration / self.part(level)[0]
            self.running[flow] = self.running.get(flow, 0) + 1
            request = next(self.world.order)
            self.requests.add(request)
            self.levels[request] = level
            self.world.begun += 1
            self.world.at(duration, self.end, flow, request)
        if self.waiting_flows() and self.world.now - self.asked_at > 50 * MS:
            self.report()

    def waiting_flows(self) -> list[int]:
        return [flow for flow, wanted in self.wanted.items() if wanted > self.running.get(flow, 0)]

    def next_flow(self) -> int | None:
        """Return the flow of the next request: that of a level below its least seats, or whose turn it is."""
        waiting: dict[str, list[int]] = {}
        for flow in self.waiting_flows():
            waiting.setdefault(self.world.level_of(flow), []).append(flow)
        used = {level: self.in_use_of(level) for level in self.world.leaves}
        least = {level: self.part(level)[1] for level in used}
        kept = {level: max(0, least[level] - one) for level, one in used.items()}
        free = self.seats - self.in_use
        levels = [
            level for level in waiting if free > sum(kept.values()) - kept[level] and self.has_room_within_maxes(level)
        ]
        if not levels:
            return None
        level = min(levels, key=lambda one: (used[one] >= least[one], self.level_start(one), one))
        return min(waiting[level], key=lambda one: (self.flow_start(one), one))

    def has_room_within_maxes(self, level: str) -> bool:
        """Return whether its parts of the maxes allow another request of ``level``."""
        maxes = self.membership.maxes(self.now)
        return all(
            self.used_of(name) < most for name, most in maxes.items() if level in self.world.families.get(name, ())
        )

    def used_of(self, name: str) -> int:
        """Return the seats in use at the level or parent of this ``name``."""
        return sum(self.levels[request] in self.world.families.get(name, ()) for request in self.requests)

    def most_used_of(self, name: str) -> int:
        """The seats that it uses or may use of a max, without those of requests that have outlived a lease."""
        outlived = sum(self.levels[request] in self.world.families[name] for request in self.outlived)
        return max(self.used_of(name) - outlived, min(self.seats, self.membership.maxes(self.now).get(name, 0)))

    def level_start(self, level: str) -> float:
        return max(self.level_finish.get(level, 0.0), self.level_time)

    def flow_start(self, flow: int) -> float:
        return max(self.finish.get(flow, 0.0), self.virtual_times.get(self.world.level_of(flow), 0.0))

    def reweigh(self) -> None:
        """Let no flow or level wait for more than one request costs: it doesn't go on to pay for a former weight."""
        longest = self.world.longest_request_ns
        for level, finish in self.level_finish.items():
            self.level_finish[level] = min(finish, self.level_time + longest / self.part(level)[0])
        for flow, finish in self.finish.items():
            virtual_time = self.virtual_times[self.world.level_of(flow)]
            self.finish[flow] = min(finish, virtual_time + longest / self.weight(flow))

    def part(self, level: str) -> tuple[float, int]:
        """Return the part of a level in all weights, and its least seats, in the limit in force."""
        limit = self.membership.limit
        part = limit.levels.get(level) if self.now < limit.lease_until else None
        if part is None:
            return 1 / len(self.world.leaves), 0
        return max(part.weight, 1) / sum(max(one.weight, 1) for one in limit.levels.values()), part.least

    def in_use_of(self, level: str) -> int:
        return sum(one for flow, one in self.running.items() if self.world.level_of(flow) == level)

    def weight(self, flow: int) -> float:
        grant = self.membership.grant
        part = None if grant is None else grant.levels.get(self.world.level_of(flow))
        return 1.0 if part is None else part.factors.get(flow, WEIGHT_ONE) / WEIGHT_ONE

    def end(self, flow: int, request: int) -> None:
        if self.has_crashed:
            return
        maxes = self.membership.maxes(self.now)
        is_over = self.in_use > self.seats or any(self.used_of(name) > part for name, part in maxes.items())
        self.requests.discard(request)
        self.outlived.discard(request)
        self.running[flow] -= 1
        self.served[flow] = self.served.get(flow, 0) + 1
        if is_over:
            self.report()
        self.begin()

    # Messages

    def usage(self, level: str) -> LevelUsage:
        demands = sorted(((wanted, flow) for flow, wanted in self.demands(level)), reverse=True)
        listed = FlowTable.of({flow: wanted for wanted, flow in demands[: self.world.listed] if wanted})
        rest = [wanted for wanted, _ in demands[self.world.listed :] if wanted]
        arrivals = 10 * sum(wanted for wanted, _ in demands)
        return LevelUsage(self.in_use_of(level), arrivals, 0, listed, len(rest), sum(rest))

    def demands(self, level: str) -> Iterable[tuple[int, int]]:
        flows = sorted(flow for flow in {*self.wanted, *self.running} if self.world.level_of(flow) == level)
        return ((flow, max(self.wanted.get(flow, 0), self.running.get(flow, 0))) for flow in flows)

    def report(self) -> None:
        if not (self.is_paused or self.has_crashed):
            self.asked_at = self.world.now
            grant = self.membership.grant
            if grant is not None and grant.is_contended and not self.waiting_flows():
                self.membership.lower(self.now, self.in_use + grant.keep)
            levels = {level: self.usage(level) for level in self.world.leaves}
            used = {name: self.used_of(name) for name in self.world.families}
            report = self.membership.report(self.now, self.in_use, levels, used=used)
            if not self.is_cut_off:
                self.world.send(self.world.deliver_report, report)

    def beat(self) -> None:
        """Report at each interval."""
        if not self.has_crashed:
            self.report()
            self.world.at(round(self.world.interval_ns * self.world.random.uniform(0.8, 1.2)), self.beat)

    def receive(self, grant: Grant) -> None:
        if self.is_paused:
            self.world.hold(self, self.receive, grant)
        elif not (self.has_crashed or self.is_cut_off):
            self.note_lapse()
            if self.membership.receive(self.now, grant):
                parts = [grant.seats, *grant.maxes.values()]
                if any(part < told for part, told in zip(parts, self.told, strict=False)):
                    self.report()
                self.told = parts
                self.reweigh()
                self.begin()


class SimulatedAllocator:
    """The allocator of one epoch. It takes the reports that arrive together, and then divides the seats.

    The store keeps the number of the latest epoch. **The rule of a store**: an allocator looks at this number after it
    has taken the reports and the time, and before it sends grants. If there is a later epoch, it sends none, ever.
    Grants that it sends after this look may be late, by any time.
    """

    def __init__(self, world: "FleetWorld", expected: Iterable[str] | None) -> None:
        self.world = world
        self.clock = world.draw_clock()
        self.pure = Allocator(
            world.budget,
            epoch=world.epoch,
            now=self.clock.at(world.now),
            lease_ns=world.lease_ns,
            margin_ns=world.margin_ns,
            turn_ns=100 * MS,
            most_members=world.most_members,
            expected=None if expected is None else [*expected],
        )
        self.asking: set[str] = set()
        self.is_due = self.is_paused = self.has_ended = False
        self.held: list[HeldCall] = []

    def receive(self, report: Report) -> None:
        if self.has_ended:
            return
        if self.is_paused:
            self.world.hold(self, self.receive, report)
            return
        self.pure.receive(self.clock.at(self.world.now), report)
        self.asking.add(report.member)
        if not self.is_due:
            self.is_due = True
            self.world.at(MS, self.divide)

    def divide(self) -> None:
        if self.is_paused:
            self.world.hold(self, self.divide)
            return
        self.is_due = False
        world, now = self.world, self.clock.at(self.world.now)
        if self.pure.epoch != world.epoch and world.allocators_look:
            self.has_ended = True
        if self.has_ended:
            return
        if world.knows_members and self.pure.is_learning(now):
            self.pure.expect(list(world.members))
        asking, self.asking = self.asking, set()
        for name, grant in self.pure.divide(now, asking).items():
            world.send(world.deliver_grant, grant, name)
        self.check(now)

    def check(self, now: int) -> None:
        """Raise AssertionError unless the debts are those of the accounts, and all ended leases are noticed."""
        pure = self.pure
        unknown = max(0, self.world.most_members - len(pure.accounts))
        owed = sum(account.debt.owed for account in pure.accounts.values()) + self.world.floor * unknown
        assert pure.debt == owed, f"{pure!r} counts a debt of {pure.debt}, but it is {owed}"
        assert all(account.lease_until > now for account in pure.accounts.values()), f"{pure!r} keeps ended leases"


class FleetWorld:
    """A fleet with ``seats``, whose levels have the ``claims``; a flow belongs to the level of its number.

    If the store ``knows_members``, it knows at each moment which members live, as with locks on one host. Without
    ``allocators_look``, allocators break the rule of a store. ``listed`` is the number of flows of which a report has
    the demands. With ``long``, this part of the requests lasts for up to a lease.
    """

    interval_ns = 250 * MS
    lease_ns = 5 * SECOND
    margin_ns = 100 * MS
    listed = 32
    most_members = 8
    longest_join_ns = 100 * MS
    durations_ms = (5, 40)

    def __init__(
        self,
        seats: int,
        seed: int,
        network: Network = Network(),
        *,
        floor: int = 0,
        claims: Mapping[str, SeatDemand] = ONE_LEVEL,
        drift_ppm: int = 0,
        knows_members: bool = False,
        allocators_look: bool = True,
        long: float = 0.0,
        allocator: "type[SimulatedAllocator] | None" = None,
    ) -> None:
        self.allocator_type = allocator or SimulatedAllocator
        self.random = random.Random(seed)
        self.now = 0
        self.network = network
        self.floor = floor
        self.seats = seats
        self.budget = Budget(seats, claims, floor=floor)
        self.claims = claims
        self.leaves = self.budget.leaves
        self.families = {
            name: [one for one in self.leaves if name in {one, claims[one].parent}] for name in self.budget.maxes
        }
        self.drift_ppm = drift_ppm
        self.knows_members = knows_members
        self.allocators_look = allocators_look
        self.long = long
        self.events: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self.order = count()
        self.members: dict[str, SimulatedMember] = {}  # those that haven't crashed
        self.epoch = 0
        self.allocators: dict[int, SimulatedAllocator] = {}
        self.most_excess = self.begun = 0
        self.elect()

    @property
    def allocator(self) -> SimulatedAllocator | None:
        """The allocator of the latest epoch, if it is alive."""
        return self.allocators.get(self.epoch)

    @property
    def longest_request_ns(self) -> int:
        return self.lease_ns if self.long else self.durations_ms[1] * MS

    def level_of(self, flow: int) -> str:
        return self.leaves[flow % len(self.leaves)]

    # Events

    def at(self, delay: int, call: Callable[..., None], *args: object) -> None:
        heapq.heappush(self.events, (self.now + delay, next(self.order), call, args))

    def run(self, until: int) -> None:
        while self.events and self.events[0][0] <= until:
            at, _, call, args = heapq.heappop(self.events)
            self.now = at
            for member in self.members.values():
                member.note_lapse()
            call(*args)
            self.check()
        self.now = until

    def hold(self, process: "SimulatedMember | SimulatedAllocator", call: Callable[..., None], *args: object) -> None:
        """Keep a call for a process that is paused: a message is in its socket's buffer."""
        process.held.append((self.now, call, args))

    def let_go(self, process: "SimulatedMember | SimulatedAllocator") -> None:
        """Let a process go on with what came meanwhile, each message within 10 ms, as if it looked that often."""
        held, process.held = process.held, []
        for came_at, call, args in held:
            self.at((came_at - self.now) % (10 * MS), call, *args)

    def draw_duration(self) -> int:
        if self.long and self.random.random() < self.long:
            return self.random.randint(0, self.lease_ns)
        return self.random.randint(*self.durations_ms) * MS

    def draw_clock(self) -> LocalClock:
        if not self.drift_ppm:
            return LocalClock()
        return LocalClock(self.random.randint(0, 10**15), self.random.choice((-self.drift_ppm, 0, self.drift_ppm)))

    def send(self, deliver: Callable[..., None], message: Report | Grant, *args: object) -> None:
        for _ in range(1 + (self.random.random() < self.network.repeated)):
            if self.random.random() < self.network.lost:
                continue
            delay = self.random.uniform(*self.network.delay_ms) * MS
            if self.random.random() < self.network.slow:
                delay = self.random.uniform(0, 2) * self.lease_ns
            self.at(round(delay), deliver, read_message(write(message)), *args)

    # The allocators

    def elect(self) -> None:
        """Begin another epoch, with an allocator that knows nothing; earlier ones may be alive."""
        self.epoch += 1
        expected: Iterable[str] | None = None
        if self.epoch == 1 or self.knows_members:
            expected = list(self.members)
        self.allocators[self.epoch] = self.allocator_type(self, expected)
        for member in self.members.values():
            self.at(self.random.randint(0, self.longest_join_ns), self.join, member, self.epoch)

    def join(self, member: SimulatedMember, epoch: int) -> None:
        if epoch == self.epoch and member.is_paused:
            self.hold(member, self.join, member, epoch)
        elif epoch == self.epoch:
            member.membership.join(epoch)

    def crash_allocator(self, outage_ns: int) -> None:
        for allocator in self.allocators.values():
            allocator.has_ended = True
        self.allocators.clear()
        self.at(outage_ns, self.elect)

    def pause_allocator(self, duration: int) -> None:
        if self.allocator is not None:
            self.allocator.is_paused = True
            self.at(duration, self.resume_allocator, self.allocator)

    def resume_allocator(self, allocator: SimulatedAllocator) -> None:
        allocator.is_paused = False
        self.let_go(allocator)

    def deliver_report(self, report: Report) -> None:
        allocator = self.allocators.get(report.epoch)
        if allocator is not None:
            allocator.receive(report)

    def deliver_grant(self, grant: Grant, name: str) -> None:
        if name in self.members:
            self.members[name].receive(grant)

    # Members

    def add(self, name: str, wanted: Mapping[int, int]) -> SimulatedMember:
        """Add a member; it is known to the store before it looks for the latest epoch."""
        member = self.members[name] = SimulatedMember(self, name, wanted)
        member.membership.join(self.epoch)
        self.at(self.random.randint(0, 50) * MS, member.beat)
        return member

    def crash(self, member: SimulatedMember) -> None:
        """End a member with all its requests; only a store that knows the members tells the allocator."""
        member.has_crashed = True
        del self.members[member.name]
        if self.knows_members and self.allocator is not None:
            self.allocator.pure.leave(self.allocator.clock.at(self.now), member.name)

    def pause(self, member: SimulatedMember, duration: int) -> None:
        member.is_paused = True
        self.at(duration, self.resume, member)

    def resume(self, member: SimulatedMember) -> None:
        member.is_paused = False
        self.let_go(member)
        member.begin()

    def cut_off(self, member: SimulatedMember, duration: int) -> None:
        """Lose all messages from and to a member."""
        member.is_cut_off = True
        self.at(duration, self.reconnect, member)

    def reconnect(self, member: SimulatedMember) -> None:
        member.is_cut_off = False

    # What must hold

    def check(self) -> None:
        """Raise AssertionError if more seats are used, or may be, than there are.

        For each member, the larger one of its limit and its seats in use counts.
        """
        used = sum(member.most_used for member in self.members.values())
        if used > self.seats:
            found = {name: (one.seats, one.in_use, len(one.outlived)) for name, one in self.members.items()}
            raise AssertionError(f"{used} of {self.seats} seats are used at {self.now}: {found}")
        # Without a lease, a member may use its floor for any level.
        for name, most in () if self.floor else self.budget.maxes.items():
            used = sum(member.most_used_of(name) for member in self.members.values())
            assert used <= most, f"{used} of {most} seats of {name} are used at {self.now}"
        self.most_excess = max(self.most_excess, sum(one.in_use for one in self.members.values()) - self.seats)

    def usages(self) -> dict[str, dict[str, LevelUsage]]:
        """Return the demand of each member at each level."""
        return {name: {level: one.usage(level) for level in self.leaves} for name, one in self.members.items()}

    def measure(self, duration: int) -> dict[int, float]:
        """Run for ``duration``, and return the seats that each flow had on average, over all members."""
        totals: dict[int, int] = {}
        end = self.now + duration
        while self.now < end:
            before = self.now
            self.run(min(end, self.now + MS))
            for member in self.members.values():
                for flow, seats in member.running.items():
                    totals[flow] = totals.get(flow, 0) + seats * (self.now - before)
        return {flow: total / duration for flow, total in totals.items()}
