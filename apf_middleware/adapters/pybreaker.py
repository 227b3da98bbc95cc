"""A gate for a circuit breaker of pybreaker, a library for functions that run in threads."""

from typing import Any, Final, Unpack

from apf_middleware.adapters.breakers import BreakerState, Circuit
from apf_middleware.exceptions import MissingExtraError
from apf_middleware.gates.gate import TermsGiven
from apf_middleware.gates.registry import Gates

try:
    from pybreaker import CircuitBreaker, CircuitBreakerListener
except ImportError:
    raise MissingExtraError("pybreaker", "breakers") from None

__all__ = ["pybreaker_gate"]

_STATES: Final[dict[str, BreakerState]] = {"open": "open", "half-open": "half-open", "closed": "closed"}


def pybreaker_gate(
    gates: Gates, name: str, breaker: CircuitBreaker, *, probes: int = 1, **terms: Unpack[TermsGiven]
) -> Circuit:
    """Add a gate that requests pass while ``breaker`` is closed."""
    circuit = Circuit(gates, name, probes, **terms)
    breaker.add_listener(_Listener(circuit))
    if breaker.current_state != "closed":
        circuit.note(_STATES[breaker.current_state], breaker.reset_timeout)
    return circuit


class _Listener(CircuitBreakerListener):
    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit

    def state_change(self, cb: CircuitBreaker, old_state: Any, new_state: Any) -> None:  # noqa: ANN401, ARG002
        self._circuit.note(_STATES[new_state.name], cb.reset_timeout)
