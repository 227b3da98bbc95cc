"""A server in the mode ``observe`` decides as it would in the mode ``on``, if its requests took as long."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from apf_middleware.config import Configuration
from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.metrics import APFCollector
from apf_middleware.runtime import Admission, Controller, Destination, NamedQueues, read_server
from apf_middleware.runtime.event_queue import EventQueue, VirtualTimer
from apf_middleware.runtime.timeouts import Timeouts
from apf_middleware.runtime.virtual_requests import VirtualRequest, VirtualRequests
from tests.support.examples import seeds
from tests.support.shadow_world import SECOND, Client, place_of, random_clients, random_config

REQUESTS = 300
END = 10_000 * SECOND


@dataclass
class Server:
    """A server in virtual time; every fifth request bills its flow for more seats, and every seventh fails."""

    configuration: Configuration
    events: EventQueue = field(default_factory=EventQueue)
    admissions: list[Admission] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.controller = Controller(self.configuration, now=self.events.read, alarm=self.alarm)
        limits = {runtime.wait_limit_ns for runtime in self.controller.levels.values()}
        self.limits = {limit: Timeouts(limit, self.events.read, Request.time_out, self.alarm) for limit in limits}

    def alarm(self, ring: Callable[[], None], _now: Callable[[], int]) -> VirtualTimer:
        return VirtualTimer(self.events, ring)

    def run(self, clients: Sequence[Client]) -> None:
        for client in clients:
            self.events.at(client.at, self.arrive, client)
        self.events.run()
        assert self.events.now < END
        self.events.now = END  # no seat lingers any more
        self.controller.look(self.events.now)
        self.controller.sharing.check()

    def arrive(self, client: Client) -> None:
        admission = Admission(Destination(self.controller, place_of(client), client.work))
        self.admissions.append(admission)
        self.begin(admission, client)

    def begin(self, admission: Admission, client: Client) -> None:
        """Let the request wait for its seats, as the mode ``on`` does."""
        request = Request(self, admission, client)
        self.controller.arrive(self.events.now, admission)
        if admission.state is TicketState.WAITING:
            admission.waiter = request
            request.deadlines.begin(request)
        else:
            request.wake()

    def decisions(self) -> list[tuple[str, int]]:
        """Return for each request why it was rejected, or how long it waited."""
        return [
            (one.reason.value, 0) if one.reason is not None else ("seats", one.seated_at - one.arrived_at)
            for one in self.admissions
        ]

    def metrics(self) -> list[str]:
        queues = NamedQueues(self.controller)
        collector = APFCollector(lambda: read_server(self.controller, queues))
        return collector.write(open_metrics=False).decode().splitlines()


@dataclass(eq=False)
class Request:
    """The task of one request, in the mode ``on``."""

    server: Server
    admission: Admission
    client: Client

    @property
    def deadlines(self) -> "Timeouts[Request]":
        return self.server.limits[self.admission.destination.runtime.wait_limit_ns]

    def time_out(self) -> None:
        self.server.controller.abandon(self.admission, Reason.TIME_OUT)

    def wake(self) -> None:
        self.deadlines.end(self)
        if self.admission.state is TicketState.SEATED:
            self.server.events.at(self.admission.seated_at + self.client.lasts, self.end, None)

    def end(self, _: None) -> None:
        tell(self.admission, self.client)
        self.server.controller.release(self.admission)


class ObservingServer(Server):
    """The same server in the mode ``observe``: its requests begin and end without waiting."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rejected: list[Admission] = []  # as the log tells
        self.virtual = VirtualRequests(self.events.read, self.rejected.append, alarm=self.alarm)

    def begin(self, admission: Admission, client: Client) -> None:
        request = self.virtual.begin(self.events.now, admission)

        def end(_: None) -> None:
            tell(request, client)
            request.finish()

        self.events.at(self.events.now + client.lasts, end, None)


def tell(request: Admission | VirtualRequest, client: Client) -> None:
    """Let the app say what it does at the end of a request."""
    if client.number % 5 == 0:
        request.charge(3)
    if client.number % 7 == 0:
        request.fail()


@pytest.mark.parametrize("seed", seeds(60))
def test_observed_requests_are_seated_and_rejected_as_if_they_were_limited(seed: int) -> None:
    random = Random(seed)
    configuration = random_config(random)
    clients = random_clients(random, REQUESTS)
    limiting, observing = Server(configuration), ObservingServer(configuration)
    for server in (limiting, observing):
        server.run(clients)

    assert observing.decisions() == limiting.decisions()
    assert observing.metrics() == limiting.metrics()
    told = [id(one) for one in observing.rejected]
    assert sorted(told) == sorted(id(one) for one in observing.admissions if one.reason is not None)
