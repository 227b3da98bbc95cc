"""Servers in virtual time that run the same requests: the real one, its shadow, and one that really runs that shadow's
configuration.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from apf_middleware.classification import ANONYMOUS, Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Reason, TicketState, Work, flow_hash
from apf_middleware.runtime import Admission, Controller, Destination
from apf_middleware.runtime.event_queue import EventQueue, VirtualTimer
from apf_middleware.runtime.running_requests import RunningRequests
from apf_middleware.runtime.shadow import ShadowPlace, ShadowRequest, ShadowServer
from apf_middleware.runtime.shadow.durations import MeanDuration, TypicalDurations

__all__ = ["MS", "SECOND", "Client", "PlainServer", "ShadowWorld", "config_text", "random_clients", "random_config"]

MS = 10**6
SECOND = 10**9
FLOWS = 8


@dataclass(frozen=True)
class Client:
    """A request that arrives at a time, and whose client leaves if it still waits at another; durations in ns."""

    number: int
    at: int
    flow: str
    level: str
    work: Work
    lasts: int
    leaves_at: int | None = None


@dataclass
class Run:
    """What became of a request at one server: its ``outcome``, its ``wait``, and when its client left, if so."""

    outcome: str = ""
    wait: int = 0
    left_at: int | None = None
    lasted: int | None = None


@dataclass
class PlainServer:
    """A controller that serves requests for given durations; ``observed`` sees each one just before it arrives."""

    configuration: Configuration
    observe: Callable[[Client], ShadowRequest] | None = None
    events: EventQueue = field(default_factory=EventQueue)
    runs: dict[int, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        running = None if self.observe is None else RunningRequests(0)
        self.controller = Controller(
            self.configuration,
            running=running,
            now=self.events.read,
            alarm=lambda ring, _: VirtualTimer(self.events, ring),
        )

    def expect(self, client: Client) -> None:
        self.events.at(client.at, self._arrive, client)

    def _arrive(self, client: Client) -> None:
        destination = Destination(self.controller, place_of(client), client.work)
        admission, run = Admission(destination), Run()
        if self.observe is not None:
            admission.observations = (self.observe(client),)
        self.runs[client.number] = run
        waiting = PlainWait(self, admission, client, run)
        self.controller.arrive(self.events.now, admission)
        if admission.state is TicketState.WAITING:
            admission.waiter = waiting
            limit_at = self.events.now + destination.runtime.wait_limit_ns
            self.events.at(limit_at, lambda one: self.controller.abandon(one, Reason.TIME_OUT), admission)
            if client.leaves_at is not None:
                self.events.at(client.leaves_at, waiting.leave, None)
        else:
            waiting.wake()


@dataclass
class PlainWait:
    """The task of one request."""

    server: PlainServer
    admission: Admission
    client: Client
    run: Run

    def wake(self) -> None:
        admission, run = self.admission, self.run
        if admission.state is TicketState.SEATED:
            run.wait = admission.seated_at - admission.arrived_at
            run.outcome = "waited" if run.wait else "at-once"
            self.server.events.at(admission.seated_at + self.client.lasts, self.end, None)
        else:
            assert admission.reason is not None
            run.outcome = admission.reason.value

    def end(self, _: None) -> None:
        self.run.lasted = self.client.lasts
        self.server.controller.release(self.admission)

    def leave(self, _: None) -> None:
        if self.admission.state is TicketState.WAITING:
            self.run.left_at = self.server.events.now
            self.server.controller.hang_up(self.admission)


def place_of(client: Client) -> Classification:
    schema = f"of-{client.level}"
    return Classification(schema, client.level, client.flow, flow_hash(schema, client.flow))


class DistinctDurations(TypicalDurations):
    """Durations of which no two are equal, so that no two requests end at the same nanosecond."""

    def __init__(self) -> None:
        super().__init__()
        self._further = count(1)

    def guess(self, of_route: MeanDuration) -> int:
        return super().guess(of_route) + next(self._further)


class ShadowWorld:
    """A real server and its shadow; afterwards, `really` runs the shadow's configuration by itself."""

    def __init__(self, real: Configuration, tried: Configuration) -> None:
        self.tried = tried
        self.real = PlainServer(real, self._observe)
        self.failures: list[Exception] = []
        self.shadow = ShadowServer(tried, self.real.events.read, self.failures.append)
        self.shadow.durations = DistinctDurations()
        self.requests: dict[int, ShadowRequest] = {}

    def _observe(self, client: Client) -> ShadowRequest:
        shadow, classification = self.shadow, place_of(client)
        tally = shadow.tallies.schema(classification.level, classification.schema)
        destination = Destination(shadow.controller, classification, client.work)
        place = ShadowPlace(destination, tally, ANONYMOUS, shadow.durations.of("all"))
        place.flow = shadow.tallies.flow(classification)
        place.flow.requests += 1
        self.requests[client.number] = request = shadow.begin(place)
        return request

    def run(self, clients: Sequence[Client]) -> None:
        for client in clients:
            self.real.expect(client)
        self.real.events.run()
        self.real.events.now += 3600 * SECOND  # so that all virtual requests end, too
        assert self.shadow.settle(10**6)
        if self.failures:
            raise self.failures[0]

    def really(self, clients: Sequence[Client]) -> PlainServer:
        """Return a server that has run the shadow's configuration, with the durations and hang-ups that it was told."""
        server = PlainServer(self.tried)
        for client in clients:
            lasted, left_at = self.requests[client.number].lasted_ns, self.real.runs[client.number].left_at
            assert lasted is not None
            server.expect(
                Client(client.number, client.at, client.flow, client.level, client.work, lasted, leaves_at=left_at)
            )
        server.events.run()
        server.events.now += 3600 * SECOND
        server.controller.look(server.events.now)
        return server

    def shadow_runs(self) -> dict[int, tuple[str, int]]:
        """Return the outcome and the wait of each request in the shadow."""
        found = {}
        for number, request in self.requests.items():
            admission = request.admission
            if admission.reason is not None:
                found[number] = admission.reason.value, 0
            else:
                wait = admission.seated_at - admission.arrived_at
                found[number] = "waited" if wait else "at-once", wait
        return found


# Random worlds


def config_text(*, seats: int, discipline: str, borrowing: str, levels: Sequence[str]) -> str:
    """Return a configuration with the levels ``a`` and ``b``; their specs are without shares."""
    documents = [
        f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}, defaults: none, discipline: {discipline}, "
    ]
    documents[0] += f"borrowing: {borrowing}}}"
    documents += [
        f"apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\nspec: {spec}"
        for name, spec in zip("ab", levels, strict=True)
    ]
    documents += [
        f"apiVersion: apf/v1\nkind: FlowSchema\nmetadata: {{name: of-{name}}}\n"
        f"spec: {{level: {name}, rules: [{{httpRules: [{{}}]}}]}}"
        for name in "ab"
    ]
    return "\n---\n".join(documents)


def random_config(random: Random) -> Configuration:
    """Return a configuration with two levels, where requests wait or are rejected."""

    def level() -> str:
        shares, lent = random.choice((0, 10, 30, 100)), random.choice((0, 50, 100))
        limits = f"shares: {shares}, lendablePercent: {lent}"
        if random.random() < 0.2:
            return f"{{{limits}, response: Reject}}"
        queues = random.choice((1, 2, 8))
        hand, length, wait = (
            random.randint(1, min(queues, 3)),
            random.choice((1, 5, 40)),
            random.choice((30, 200, 2000)),
        )
        queuing = f"queuing: {{queues: {queues}, handSize: {hand}, queueLengthLimit: {length}}}"
        return f"{{{limits}, waitLimit: {wait}ms, {queuing}}}"

    return load_text(
        config_text(
            seats=random.randint(1, 8),
            discipline=random.choice(("equal-serial", "max-min-serial", "max-min-concurrent")),
            borrowing=random.choice(("immediate", "immediate", "periodic")),
            levels=(level(), level()),
        )
    )


def random_clients(random: Random, number: int) -> list[Client]:
    """Return requests of two levels, in bursts and pauses; no two events are at the same nanosecond."""
    clients, at = [], 0
    mean = random.choice((2, 5, 20)) * MS
    patience = random.choice((None, 20, 200))
    for one in range(number):
        at += round(random.expovariate(1 / mean)) + 1
        if random.random() < 0.02:
            at += round(random.random() * SECOND)
        work = Work(1)
        if random.random() < 0.2:
            work = Work(random.randint(1, 3), random.choice((0, 1, 2)), random.choice((0, 5 * MS)))
        leaves = None if patience is None else at + 1 + round(random.expovariate(1 / (patience * MS)))
        lasts = 1 + round(random.expovariate(1 / (random.choice((1, 10, 40)) * MS)))
        clients.append(Client(one, at, f"flow-{random.randrange(FLOWS)}", random.choice("aab"), work, lasts, leaves))
    return clients
