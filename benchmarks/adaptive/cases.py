"""The cases of the benchmark. Each takes seconds of processor time, so hours of drift are compressed to minutes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from benchmarks.adaptive.case import Case, Outage, Route

__all__ = ["CASES"]

_STEPS: Final = ((0.0, 40.0), (60.0, 10.0), (120.0, 40.0), (180.0, 80.0))
_FEWER: Final = ((0.0, 20.0), (60.0, 5.0), (120.0, 20.0))
_MARKS: Final = (0.0, 60.0, 120.0, 180.0)
_OVERLOAD: Final = ((0.0, 3.0),)
_CONNECTIONS: Final = Case(
    name="connections",
    about="40 connections, one request each, before a capacity of 20",
    capacity=20,
    connections=40,
    room=40,
    routes=(Route("all", 0.2),),
    start=2,
    wait_limit=15.0,
    time_limit=30.0,
)


def _steady() -> Iterator[Case]:
    for load in (0.5, 0.9, 1.5, 3.0):
        yield Case(name=f"sharing {load}", about="processor sharing", loads=((0.0, load),))
    bursts = [(float(at), 3.0 if at % 10 < 4 else 0.5) for at in range(0, 120, 2)]
    yield Case(name="sharing bursts", about="4 s of 3 times the capacity, then 6 s of half of it", loads=bursts)
    for load in (0.9, 1.5, 3.0):
        yield Case(name=f"pool {load}", about="a pool of connections", kind="pool", loads=((0.0, load),))
    for load in (0.9, 1.5, 3.0):
        yield Case(
            name=f"collapse {load}",
            about="throughput falls beyond 44 at once",
            capacity=44,
            contention=0.02,
            coherence=0.0005,
            loads=((0.0, load),),
        )


def _neighbour() -> Sequence[tuple[float, float]]:
    """Let a neighbour take 30 % of the capacity, for 5 s on average."""
    random = Random(7)
    steps = [(0.0, 40.0)]
    while steps[-1][0] < 120:
        steps.append((steps[-1][0] + max(0.5, random.expovariate(0.2)), 28.0 if len(steps) % 2 else 40.0))
    return steps


def _changing() -> Iterator[Case]:
    for kind in ("sharing", "pool"):
        about = "capacity 40, 10, 40, 80"
        yield Case(
            name=f"{kind} steps",
            about=about,
            kind=kind,
            seconds=240.0,
            capacities=_STEPS,
            loads=_OVERLOAD,
            marks=_MARKS,
        )
    yield Case(
        name="mix flips",
        about="10 % of requests are slow, then 50 %, then 10 %",
        seconds=180.0,
        routes=(Route("fast", 0.005), Route("slow", 0.5)),
        mixes=((0.0, (0.9, 0.1)), (60.0, (0.5, 0.5)), (120.0, (0.9, 0.1))),
        loads=((0.0, 1.5), (60.0, 0.33), (120.0, 1.5)),
        marks=(0.0, 60.0, 120.0),
    )
    yield Case(
        name="cached",
        about="90 % of requests, of the same route, are answered from a cache",
        routes=(Route("all", 0.5, cached=0.9),),
    )
    yield Case(name="neighbour", about="30 % of the capacity comes and goes", capacities=_neighbour())
    drift = [(float(at), 1.01 ** (at / 4)) for at in range(0, 480, 4)]
    yield Case(name="drift", about="service time grows 1 % every 4 s", seconds=480.0, stretches=drift)
    yield Case(
        name="retries", about="70 % of those who are rejected come again after 1 s", seconds=300.0, retry_after=1.0
    )


def _disturbed() -> Iterator[Case]:
    pauses = [step for at in range(10, 120, 10) for step in ((float(at), 0.0), (at + 0.2, 40.0))]
    stragglers = (Route("all", 0.05, straggler=20.0),)
    yield Case(
        name="noise", about="a pause of 0.2 s every 10 s; 1 % of requests x 20", capacities=pauses, routes=stragglers
    )
    yield Case(
        name="errors",
        about="30 s of errors in 1 ms",
        outages=(Outage(60.0, 90.0, 0.001),),
        marks=(0.0, 90.0),
        seconds=150.0,
    )
    yield Case(
        name="time-outs",
        about="30 s in which nothing answers within 5 s",
        outages=(Outage(60.0, 90.0, None),),
        marks=(0.0, 95.0),
        seconds=150.0,
    )
    slow = ((0.0, 5.0), (10.0, 1.0))
    yield Case(name="slow start", about="10 s at 5 times the service time", stretches=slow, marks=(10.0,))


def _starting() -> Iterator[Case]:
    yield Case(name="cold start", about="the limit starts at 1", start=1)
    yield Case(name="too large", about="the limit starts at 200", start=200)
    yield Case(
        name="quiet",
        about="1 request a second for 5 minutes, then an overload",
        loads=((0.0, 1 / 800), (300.0, 3.0)),
        seconds=420.0,
        marks=(300.0,),
    )
    yield Case(
        name="light",
        about="0.3 of the capacity for 5 minutes, then an overload",
        loads=((0.0, 0.3), (300.0, 3.0)),
        seconds=420.0,
        marks=(300.0,),
    )
    yield Case(
        name="low traffic",
        about="capacity 4, 8 requests a second",
        capacity=4,
        routes=(Route("all", 0.5),),
        start=2,
        room=20,
        seconds=1200.0,
        wait_limit=5.0,
        time_limit=30.0,
    )


def _connected() -> Iterator[Case]:
    """Yield cases in which nobody waits as soon as there are as many seats as connections."""
    few = _CONNECTIONS
    yield few
    yield replace(few, name="connections 45", about=f"{few.about}, 45 seats", start=45)
    even = replace(few, kind="fixed at start", routes=(Route("all", 0.2, sigma=0.0),))
    yield replace(even, name="connections even", about=f"{few.about}, equal requests")
    steps = replace(few, about="40 connections, capacity 20, 5, 20", seconds=180.0, capacities=_FEWER, marks=_MARKS[:3])
    yield replace(steps, name="connections steps")
    yield replace(steps, name="connections even steps", kind=even.kind, routes=even.routes)


CASES: Final[Sequence[Case]] = (*_steady(), *_changing(), *_disturbed(), *_starting(), *_connected())
"""All of them."""
