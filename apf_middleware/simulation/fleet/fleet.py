"""A fleet in virtual time: simulated members, the allocator of each epoch, and what happens to them.

The store knows who is alive as the real ones do: on one host, it notices within a tenth of a second that a process has
ended; over Redis, the seats of a process that has ended are free when its lease ends.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import Final

from apf_middleware.config import Configuration
from apf_middleware.config.fleet import FleetSettings
from apf_middleware.config.scenario import FleetEvent, ScenarioMembers
from apf_middleware.fleet.allocator import Allocator
from apf_middleware.fleet.messages import Grant, Report
from apf_middleware.runtime.event_queue import EventQueue
from apf_middleware.runtime.fleet.budget import derive_budget
from apf_middleware.runtime.fleet.timing import TURN_NS, FleetTiming
from apf_middleware.simulation.fleet.allocation import SimulatedAllocation
from apf_middleware.simulation.fleet.member import SimulatedMember
from apf_middleware.simulation.fleet.network import MessageNetwork
from apf_middleware.simulation.server import SimulatedServer

__all__ = ["SimulatedFleet"]

_NOTICED_NS: Final = 100_000_000  # until the others on a host notice that a process has ended


class SimulatedFleet:
    """A fleet of the processes ``servers``, which can be replaced, with the fleet ``settings`` of ``configuration``.

    ``start`` starts a process again in the place of this number.
    """

    def __init__(
        self,
        events: EventQueue,
        servers: Sequence[SimulatedServer],
        configuration: Configuration,
        settings: FleetSettings,
        scenario: ScenarioMembers,
        *,
        start: Callable[[int], None],
        seed: int,
    ) -> None:
        self.epochs: int = 0
        self.starts: int = 0
        self._events = events
        self._servers = servers
        self._configuration = configuration
        self._settings = settings
        self._scenario = scenario
        self._start = start
        self._dice = Random(f"{seed}/fleet")  # noqa: S311 - a simulation
        self._timing = FleetTiming(settings.interval_ns, settings.lease_ns)
        self.network: MessageNetwork = MessageNetwork(events, scenario, self._dice)
        self.members: list[SimulatedMember] = []
        self._by_name: dict[str, SimulatedMember] = {}
        self._remembered: dict[str, int] = {}  # until when the store remembers a member that it doesn't see end
        self.members += [self._member(number) for number in range(len(servers))]
        self.allocation: SimulatedAllocation = self._allocation()
        for member in self.members:
            member.begin(self.epochs, events.now + self._dice.randrange(self._timing.interval_ns // 10))
        for event in scenario.events:
            events.at(event.at_ns, self._happen, event)

    def _member(self, number: int) -> SimulatedMember:
        """Return a new member for the process in this place."""
        self.starts += 1
        name = f"{number}.{self.starts}"
        controller = self._servers[number].controller
        member = SimulatedMember(
            name, number, controller, settings=self._settings, events=self._events, send=self._send_report
        )
        self._by_name[name] = member
        return member

    def _allocation(self) -> SimulatedAllocation:
        """Begin the next epoch, with an allocator that knows nothing but who may have grants."""
        self.epochs += 1
        settings, timing = self._settings, self._timing
        # The total of seats that adapts is the one that the fleet had when its last allocator ended.
        seats = max(server.controller.seats for server in self._servers)
        budget = derive_budget(self._configuration, seats)
        allocator = Allocator(
            budget,
            epoch=self.epochs,
            now=self._events.now,
            lease_ns=timing.lease_ns,
            margin_ns=timing.margin_ns,
            turn_ns=TURN_NS,
            most_members=settings.fallback.members,
            expected=self._live_members(),
        )
        return SimulatedAllocation(
            allocator,
            self._events,
            division_ns=self._scenario.division_ns,
            interval_ns=timing.interval_ns,
            send=self._send_grant,
            live_members=self._live_members,
            passes_on=not settings.is_of_host,
        )

    def _live_members(self) -> Collection[str]:
        """Return the members that may have seats, as the store knows them."""
        now = self._events.now
        ended = [name for name, until in self._remembered.items() if until > now]
        return [*(member.name for member in self.members if not member.has_ended), *ended]

    # Messages

    def _send_report(self, member: SimulatedMember, report: Report) -> None:
        self.network.send(member.number, self._deliver_report, report)

    def _deliver_report(self, report: Report) -> None:
        self.allocation.receive(report)

    def _send_grant(self, name: str, grant: Grant) -> None:
        member = self._by_name.get(name)
        if member is not None:
            self.network.send(member.number, member.receive, grant)

    # What happens to the fleet

    def _happen(self, event: FleetEvent) -> None:
        now = self._events.now
        if event.type == "allocator-crash":
            self._crash_allocator(event.duration_ns)
            return
        end = self._heal if event.type == "partition" else self._restart
        for number in event.members:
            if event.type == "partition":
                self.network.cut_off.add(number)
            else:
                self._crash(number)
            if event.duration_ns is not None:
                self._events.at(now + event.duration_ns, end, number)

    def _heal(self, number: int) -> None:
        self.network.cut_off.discard(number)
        self.members[number].join(self.epochs)  # it may have missed a new epoch

    def _crash(self, number: int) -> None:
        member = self.members[number]
        if member.has_ended:
            return
        member.end()
        del self._by_name[member.name]
        self._servers[number].crash()
        now = self._events.now
        if self._settings.is_of_host:
            self._remembered[member.name] = now + _NOTICED_NS
            self._events.at(now + _NOTICED_NS, self._notice, member.name)
        else:
            self._remembered[member.name] = now + self._timing.lease_ns + self._timing.margin_ns

    def _notice(self, name: str) -> None:
        self.allocation.forget(name)

    def _restart(self, number: int) -> None:
        if self.members[number].has_ended:
            self._start(number)
            self.members[number] = member = self._member(number)
            member.begin(self.epochs, self._events.now)

    def _crash_allocator(self, duration_ns: int | None) -> None:
        self.allocation.end()
        if duration_ns is None:
            duration_ns = _NOTICED_NS if self._settings.is_of_host else self._timing.patience_ns
        self._events.at(self._events.now + duration_ns, self._elect, None)

    def _elect(self, _: None) -> None:
        self.allocation.end()  # by now a second crash may have been followed by another epoch
        self.allocation = self._allocation()
        for member in self.members:
            if member.number in self.network.cut_off:
                continue
            delay = self._dice.randrange(self._timing.interval_ns // 10)
            self._events.at(self._events.now + delay, partial(SimulatedMember.join, member), self.epochs)

    def __repr__(self) -> str:
        return f"<SimulatedFleet of {len(self.members)} in epoch {self.epochs}: {self.allocation!r}>"
