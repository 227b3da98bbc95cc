"""The figures of a run.

Jain's index measures how equally flows are treated, each compared with its max-min fair share of the seats. By goodput
even the single queue is fair, because it serves all requests in the end; it is unfair in how long they wait. A second
index is therefore that of pace: the latency that a flow would have with its fair share to itself, divided by its actual
latency.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from apf_middleware.testing import jain_index, max_min_fair
from examples.elephant.simulation import MS, Backend, Flow, Load, Served

__all__ = ["PROMPT_MS", "Figures", "Latency", "latencies_ms", "percentile", "summarise"]

PROMPT_MS = 100
"""The number of milliseconds within which a response counts as prompt, because people don't notice the delay."""


@dataclass(frozen=True, slots=True)
class Latency:
    """The number of requests served, and their latencies in milliseconds."""

    served: int
    p50: float
    p99: float

    @classmethod
    def of(cls, flows: Iterable[Flow]) -> "Latency":
        latencies = latencies_ms(served for flow in flows for served in flow.served)
        return cls(len(latencies), percentile(latencies, 0.5), percentile(latencies, 0.99))


@dataclass(frozen=True, slots=True)
class Figures:
    """One run. Goodput is in requests a second, ``prompt`` the part of the mice's requests with a prompt response."""

    mice: Latency
    elephant: Latency
    prompt: float
    goodput: float
    rejected: int
    jain_goodput: float
    jain_pace: float


def summarise(backend: Backend) -> Figures:
    mice, elephant = Latency.of(backend.mice), Latency.of([backend.elephant])
    return Figures(
        mice=mice,
        elephant=elephant,
        prompt=_prompt_share(backend),
        goodput=(mice.served + elephant.served) * 1000 * MS / backend.world.now,
        rejected=sum(backend.queueset.rejected.values()),
        jain_goodput=jain_index(_goodputs(backend)),
        jain_pace=jain_index(_paces(backend)),
    )


def latencies_ms(served: Iterable[Served]) -> list[float]:
    """Return the latencies in ascending order."""
    return sorted(one.latency_ns / MS for one in served)


def percentile(ascending: Sequence[float], fraction: float) -> float:
    """Return the smallest value that this fraction doesn't exceed; NaN if there are no values."""
    return ascending[max(math.ceil(fraction * len(ascending)), 1) - 1] if ascending else math.nan


def _prompt_share(backend: Backend) -> float:
    """Return the part of the mice's requests with a prompt response, without those sent too late to get one."""
    last_chance = backend.world.now - PROMPT_MS * MS
    sent = sum(at <= last_chance for mouse in backend.mice for at in mouse.sent_at)
    prompt = sum(
        one.sent_at <= last_chance and one.latency_ns <= PROMPT_MS * MS
        for mouse in backend.mice
        for one in mouse.served
    )
    return prompt / sent


def _demands(load: Load) -> list[float]:
    """Return the seats that each flow would occupy if it never had to wait."""
    return [load.connections, *[load.service_ns / load.pause_ns] * load.mice]


def _fair_shares(load: Load) -> list[float]:
    """Return the max-min fair share of the seats of each flow."""
    return max_min_fair(load.seats, _demands(load))


def _goodputs(backend: Backend) -> list[float]:
    """Return the requests served as parts of what each flow's fair share of the seats can serve."""
    turns = backend.world.now / backend.load.service_ns
    shares = _fair_shares(backend.load)
    return [len(flow.served) / (turns * share) for flow, share in zip(backend.flows, shares, strict=True)]


def _paces(backend: Backend) -> list[float]:
    """Return the pace of each flow; 0 if it is never served.

    With its fair share to itself, a flow's latency is the service time times its demand divided by its share (Little's
    law).
    """
    load, paces = backend.load, []
    for flow, demand, share in zip(backend.flows, _demands(load), _fair_shares(load), strict=True):
        alone_ms = load.service_ns / MS * demand / share
        latencies = latencies_ms(flow.served)
        paces.append(alone_ms / fmean(latencies) if latencies else 0.0)
    return paces
