"""Balancers: which server gets the next request. None of them sends a request to a server that has crashed."""

import zlib
from collections.abc import Sequence
from random import Random
from typing import Protocol

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.simulation.requests import SimulatedClient
from apf_middleware.simulation.server import SimulatedServer

__all__ = [
    "Balancer",
    "LeastRequests",
    "RandomServer",
    "RecordedServer",
    "ServersInTurn",
    "StickyServer",
    "balancer",
]


class Balancer(Protocol):
    """Chooses a server for each request."""

    def choose(self, client: SimulatedClient) -> int:
        """Return the index of the server for the next request of ``client``."""
        ...


class ServersInTurn:
    """One server after the other."""

    def __init__(self, servers: Sequence[SimulatedServer]) -> None:
        self._servers = servers
        self._last = -1

    def choose(self, _client: SimulatedClient) -> int:
        found = (self._last + 1) % len(self._servers)
        if self._servers[found].has_crashed:
            found = _next_alive(self._servers, found)
        self._last = found
        return found


class RandomServer:
    """Any server, with equal probabilities."""

    def __init__(self, servers: Sequence[SimulatedServer], dice: Random) -> None:
        self._servers = servers
        self._dice = dice

    def choose(self, _client: SimulatedClient) -> int:
        found = self._dice.randrange(len(self._servers))
        while self._servers[found].has_crashed and not all(server.has_crashed for server in self._servers):
            found = self._dice.randrange(len(self._servers))
        return found


class LeastRequests:
    """The server with the fewest open requests; the next in turn if several have equally few."""

    def __init__(self, servers: Sequence[SimulatedServer]) -> None:
        self._servers = servers
        self._last = -1

    def choose(self, _client: SimulatedClient) -> int:
        servers, number = self._servers, len(self._servers)
        order = [place % number for place in range(self._last + 1, self._last + 1 + number)]
        self._last = found = min(order, key=lambda one: (servers[one].has_crashed, servers[one].open))
        return found


class StickyServer:
    """The same server for all requests of a client, as long as it is alive."""

    def __init__(self, servers: Sequence[SimulatedServer], seed: str) -> None:
        self._servers = servers
        self._seed = seed
        self._chosen: dict[SimulatedClient, int] = {}

    def choose(self, client: SimulatedClient) -> int:
        chosen = self._chosen.get(client)
        if chosen is None:
            key = f"{self._seed}/{client.template.identity.name}/{client.template.client_address}"
            chosen = self._chosen[client] = zlib.crc32(key.encode()) % len(self._servers)
        return _next_alive(self._servers, chosen)


class RecordedServer:
    """The server with the number of the process that has served the recorded request.

    ``others`` chooses one for requests that aren't recorded.
    """

    def __init__(self, servers: Sequence[SimulatedServer], others: Balancer) -> None:
        self._servers = servers
        self._others = others

    def choose(self, client: SimulatedClient) -> int:
        worker = client.template.worker
        return (
            self._others.choose(client) if worker is None else _next_alive(self._servers, worker % len(self._servers))
        )


def _next_alive(servers: Sequence[SimulatedServer], first: int) -> int:
    """Return the index of the first server from ``first`` on that is alive, or ``first`` if none is."""
    number = len(servers)
    places = (place % number for place in range(first, first + number))
    return next((place for place in places if not servers[place].has_crashed), first)


def balancer(name: str, servers: Sequence[SimulatedServer], dice: Random, seed: int) -> Balancer:
    """Return the balancer of this name in front of ``servers``; their list may change later."""
    if len(servers) == 1 or name == "round-robin":
        return ServersInTurn(servers)
    if name == "random":
        return RandomServer(servers, dice)
    if name == "least-requests":
        return LeastRequests(servers)
    if name == "sticky":
        return StickyServer(servers, str(seed))
    raise InvalidValueError("balancing", name, "it must be random, round-robin, least-requests or sticky")
