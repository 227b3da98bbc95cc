"""Which server gets a request."""

from dataclasses import replace
from random import Random

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.simulation.balancers import (
    LeastRequests,
    RandomServer,
    RecordedServer,
    ServersInTurn,
    StickyServer,
    balancer,
)
from apf_middleware.simulation.run import Simulation
from tests.support.simulated_worlds import POISSON, world


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(*world("  members: 4\n", POISSON + ", count: 40"))


def test_in_turn_without_the_crashed(simulation: Simulation) -> None:
    [client, *_] = simulation.measurements.clients
    turns = ServersInTurn(simulation.servers)

    assert [turns.choose(client) for _ in range(5)] == [0, 1, 2, 3, 0]
    simulation.servers[1].has_crashed = True
    assert [turns.choose(client) for _ in range(4)] == [2, 3, 0, 2]


def test_random_without_the_crashed(simulation: Simulation) -> None:
    [client, *_] = simulation.measurements.clients
    simulation.servers[2].has_crashed = True
    chosen = [RandomServer(simulation.servers, Random(number)).choose(client) for number in range(100)]

    assert set(chosen) == {0, 1, 3}


def test_least_requests(simulation: Simulation) -> None:
    [client, *_] = simulation.measurements.clients
    for server, number in zip(simulation.servers, (3, 1, 1, 2), strict=True):
        server.open = number
    least = LeastRequests(simulation.servers)

    assert [least.choose(client) for _ in range(3)] == [1, 2, 1], "those with equally few take turns"
    simulation.servers[1].has_crashed = simulation.servers[2].has_crashed = True
    assert least.choose(client) == 3


def test_sticky_by_client(simulation: Simulation) -> None:
    clients = simulation.measurements.clients
    sticky = StickyServer(simulation.servers, "1")
    before = {client: sticky.choose(client) for client in clients}

    assert set(before.values()) == {0, 1, 2, 3}
    assert {client: sticky.choose(client) for client in clients} == before
    simulation.servers[0].has_crashed = True
    moved = {client: sticky.choose(client) for client in clients}
    assert all(found == (1 if before[client] == 0 else before[client]) for client, found in moved.items())
    simulation.servers[0].has_crashed = False
    assert {client: sticky.choose(client) for client in clients} == before


def test_requests_fail_if_all_have_crashed(simulation: Simulation) -> None:
    [client, *_] = simulation.measurements.clients
    servers = simulation.servers
    for server in servers:
        server.has_crashed = True
    for name in ("random", "round-robin", "least-requests", "sticky"):
        assert balancer(name, servers, Random(1), 1).choose(client) in range(4)


def test_an_unknown_name_is_an_error(simulation: Simulation) -> None:
    with pytest.raises(InvalidValueError, match="sticky"):
        balancer("fastest", simulation.servers, Random(1), 1)
    assert isinstance(balancer("fastest", simulation.servers[:1], Random(1), 1), ServersInTurn)


def test_clients_have_the_same_place_in_each_run() -> None:
    def chosen() -> list[int]:
        simulation = Simulation(*world("  members: 4\n", POISSON + ", count: 40"))
        sticky = StickyServer(simulation.servers, "1")
        clients = simulation.measurements.clients
        return [sticky.choose(client) for client in clients]

    assert chosen() == chosen()


def test_as_in_the_recording(simulation: Simulation) -> None:
    [client, *_] = simulation.measurements.clients
    recorded, turns = RecordedServer(simulation.servers, ServersInTurn(simulation.servers)), client.template
    for worker, server in ((3, 3), (6, 2), (0, 0)):
        client.template = replace(turns, worker=worker)
        assert recorded.choose(client) == server
    client.template = turns
    assert [recorded.choose(client) for _ in range(2)] == [0, 1], "requests of tenants have no recorded server"
