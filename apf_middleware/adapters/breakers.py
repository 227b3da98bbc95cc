"""What a circuit breaker means for waiting requests, whichever library it comes from.

*Open*: wait until it lets anybody try; who can't wait for so long is rejected at once and told when to come back.
*Half-open*: so many requests try at a time, and the others wait for what comes of it, all but the probes. *Closed*: go.

The state is kept here, as the breaker has told it, and read nowhere else: a listener of pybreaker is called before the
breaker itself says what it is told, and purgatory tells that it is half-open only when the probe has ended. So that a
breaker has become half-open is known by time.
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
    """The condition ``name`` of ``gates``: what is known of a breaker, and how many may try when it is half-open."""

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
        if self.state == "closed":
            return None
        remaining = self._tries_at - self._clock()
        return Park(retry_in=remaining) if self.state == "open" and remaining > 0 else self._probe

    def _blocks(self) -> bool:
        return self.state == "open" and self._tries_at > self._clock()

    def note(self, state: BreakerState, opens_in: float = 0.0) -> None:
        """The breaker is in this state now, and if it is open lets somebody try in so many seconds; from any thread."""
        self._tries_at = self._clock() + opens_in
        self.state = state
        self._gates.emit_threadsafe(self.name)

    def __repr__(self) -> str:
        return f"<Circuit {self.name!r}: {self.state}>"
