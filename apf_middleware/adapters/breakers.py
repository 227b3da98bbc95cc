"""The state of a circuit breaker as a condition of requests, for all libraries of breakers.

*Open*: requests wait until the breaker lets some try; a request whose wait limit ends before is rejected at once, with
the time to come back. *Half-open*: a number of requests try at a time, the others wait for their outcome. *Closed*:
requests pass.

The state is kept here as the breaker's listener has reported it. It isn't read from the breaker, because pybreaker
calls listeners before it changes its own state, and purgatory reports the half-open state only when the probe has
ended. So the time says when a breaker becomes half-open.
"""

from collections.abc import Callable
from time import monotonic
from typing import Literal, Unpack

from apf_middleware.exceptions import require_integer
from apf_middleware.gates.gate import GateRequest, Park, Probe, TermsGiven
from apf_middleware.gates.registry import Gates

__all__ = ["BreakerState", "Circuit"]

BreakerState = Literal["open", "half-open", "closed"]


class Circuit:
    """The condition ``name`` of ``gates``: the state of a breaker, and how many ``probes`` try when it is half-open."""

    def __init__(
        self,
        gates: Gates,
        name: str,
        probes: int = 1,
        *,
        clock: Callable[[], float] = monotonic,
        **terms: Unpack[TermsGiven],
    ) -> None:
        require_integer("probes", probes, least=1)
        self.name = name
        self.state: BreakerState = "closed"
        self._gates = gates
        self._probe = Probe(probes)
        self._clock = clock
        self._tries_at = 0.0
        gates.condition(name, blocks=self._blocks, **terms)(self.ask)

    def ask(self, request: GateRequest) -> Park | Probe | None:  # noqa: ARG002
        """Return the condition's answer for ``request``."""
        if self.state == "closed":
            return None
        remaining = self._tries_at - self._clock()
        return Park(retry_in=remaining) if self.state == "open" and remaining > 0 else self._probe

    def _blocks(self) -> bool:
        return self.state == "open" and self._tries_at > self._clock()

    def note(self, state: BreakerState, opens_in: float = 0.0) -> None:
        """Note the breaker's state, and when it is open, after how many seconds it lets requests try; in any thread."""
        self._tries_at = self._clock() + opens_in
        self.state = state
        self._gates.emit_threadsafe(self.name)

    def __repr__(self) -> str:
        return f"<Circuit {self.name!r}: {self.state}>"
