"""The state of a circuit breaker as a condition of requests, for all libraries of breakers.

*Open*: requests wait until the breaker lets some try; a request with an earlier wait limit is rejected at once, with
the time after which to retry. *Half-open*: a limited number of requests try at a time, and the others wait for the
outcome. *Closed*: requests pass.

The state is the one that the breaker's listener has reported last. The breaker itself isn't read, because pybreaker
calls listeners before it changes its own state, and purgatory reports the half-open state only when the probe has
ended. So an open breaker counts as half-open after the time that the listener has reported.
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
    """The condition ``name`` of ``gates`` for one breaker; while half-open, ``probes`` requests try at a time."""

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
        """Note the breaker's state and, if open, the seconds until it lets requests try; any thread may call this."""
        self._tries_at = self._clock() + opens_in
        self.state = state
        self._gates.emit_threadsafe(self.name)

    def __repr__(self) -> str:
        return f"<Circuit {self.name!r}: {self.state}>"
