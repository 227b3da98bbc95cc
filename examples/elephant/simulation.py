"""The elephant, the mice and the backend, in virtual time.

The queue set is the library's own, driven by its `World`. Each flow has a random generator of its own, so that every
backend gets the same load.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from apf_middleware.fairqueuing import QueueSet, QueueSetSettings, Work, flow_hash
from apf_middleware.testing import Call, Rank, World

__all__ = ["MS", "Backend", "Flow", "Load", "Served", "fair_backend", "plain_backend"]

MS = 1_000_000
"""A millisecond in the simulation's nanoseconds."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a backend. Times are nanoseconds; jitter is a fraction to either side."""

    seats: int = 10
    service_ns: int = 20 * MS
    service_jitter: float = 0.1
    connections: int = 200
    mice: int = 5
    pause_ns: int = 100 * MS
    pause_jitter: float = 0.2
    lasts_ns: int = 10_000 * MS
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Served:
    """One request that was served."""

    sent_at: int
    answered_at: int

    @property
    def latency_ns(self) -> int:
        return self.answered_at - self.sent_at


class Flow:
    """A client that sends requests, and their results."""

    def __init__(self, name: str, load: Load) -> None:
        self.name = name
        self.entropy = flow_hash("everybody", name)
        self.sent_at: list[int] = []
        self.served: list[Served] = []
        self._load = load
        self._chance = Random(f"{load.seed} {name}")  # noqa: S311 - a load that repeats, not a secret

    def draw_service(self) -> int:
        return self._around(self._load.service_ns, self._load.service_jitter)

    def draw_pause(self) -> int:
        return self._around(self._load.pause_ns, self._load.pause_jitter)

    def draw_start(self) -> int:
        """Return the time of the first request, which differs between flows."""
        return int(self._load.pause_ns * self._chance.random())

    def _around(self, middle: int, jitter: float) -> int:
        return round(middle * self._chance.uniform(1 - jitter, 1 + jitter))

    def __repr__(self) -> str:
        return f"<Flow {self.name}: {len(self.sent_at)} sent, {len(self.served)} served>"


class Backend:
    """Seats that a queue set gives to the elephant and the mice; ``seats`` are the calls that hold them."""

    def __init__(self, load: Load, settings: QueueSetSettings) -> None:
        self.load = load
        self.queueset = QueueSet(settings)
        self.world = World(self.queueset)
        self.elephant = Flow("elephant", load)
        self.mice = [Flow(f"mouse {number}", load) for number in range(1, load.mice + 1)]
        self.seats: list[Call | None] = [None] * load.seats
        for _ in range(load.connections):
            self._at(self.elephant.draw_start(), self._send, self.elephant)
        for mouse in self.mice:
            self._at(mouse.draw_start(), self._send_and_pause, mouse)

    @property
    def flows(self) -> list[Flow]:
        return [self.elephant, *self.mice]

    def run(self, until: int | None = None) -> None:
        """Run to the end of the load, or to ``until``."""
        self.world.run(self.load.lasts_ns if until is None else until)

    def _at(self, time: int, send: Callable[[Flow], None], flow: Flow) -> None:
        self.world.at(time, partial(send, flow), Rank.ARRIVE)

    def _send_and_pause(self, mouse: Flow) -> None:
        """Let a mouse send requests without waiting for responses."""
        self._send(mouse)
        self._at(self.world.now + mouse.draw_pause(), self._send_and_pause, mouse)

    def _send(self, flow: Flow) -> None:
        flow.sent_at.append(self.world.now)
        self.world.arrive(
            Call(
                flow.name,
                flow.entropy,
                Work(),
                flow.draw_service(),
                on_seated=self._take_seat,
                on_finish=partial(self._answer, flow),
            )
        )

    def _take_seat(self, call: Call) -> None:
        self.seats[self.seats.index(None)] = call

    def _answer(self, flow: Flow, call: Call) -> None:
        self.seats[self.seats.index(call)] = None
        flow.served.append(Served(call.arrived_at, self.world.now))
        if flow is self.elephant:  # one of its connections is free, and sends the next request
            self._at(self.world.now, self._send, flow)

    def __repr__(self) -> str:
        return f"<Backend at {self.world.now / MS:.0f} ms: {self.queueset!r}>"


def plain_backend(load: Load) -> Backend:
    """Return a backend without fairness: one queue of unlimited length for all, as with a semaphore."""
    most = load.connections + load.mice * load.lasts_ns // load.pause_ns * 2
    return Backend(load, QueueSetSettings(load.seats, queues=1, hand_size=1, queue_length_limit=most))


def fair_backend(load: Load) -> Backend:
    """Return a backend with apf_middleware: 64 queues that are served in turn, and a hand of 6 for each flow."""
    return Backend(load, QueueSetSettings(load.seats, queues=64, hand_size=6))
