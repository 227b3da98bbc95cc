"""A gate for a circuit of purgatory, a library of breakers for ``async with`` (and, with another factory, for threads).

The library isn't imported here, because an app with a factory has already imported it.
"""

import time
from typing import TYPE_CHECKING, Final, Unpack

from apf_middleware.adapters.breakers import BreakerState, Circuit
from apf_middleware.exceptions import InvalidValueError, require_amount
from apf_middleware.gates.gate import TermsGiven
from apf_middleware.gates.registry import Gates

if TYPE_CHECKING:
    from purgatory import AsyncCircuitBreakerFactory, SyncCircuitBreakerFactory

__all__ = ["purgatory_gate"]

_STATES: Final[dict[str, BreakerState]] = {"opened": "open", "half-opened": "half-open", "closed": "closed"}
_MARGIN: Final = 0.002  # a breaker lets requests try only after the end of its pause, not exactly at the end


def purgatory_gate(
    gates: Gates,
    name: str,
    factory: "AsyncCircuitBreakerFactory | SyncCircuitBreakerFactory",
    circuit: str,
    *,
    probes: int = 1,
    ttl: float | None = None,
    **terms: Unpack[TermsGiven],
) -> Circuit:
    """Add a gate that requests pass while ``circuit`` is closed. ``ttl`` is that of the breaker, if it has one.

    Add the gate before the breaker is used, because purgatory doesn't report earlier events.
    """
    if ttl is not None and not require_amount("ttl", ttl) > 0:  # purgatory says nothing about an error of a listener
        raise InvalidValueError("ttl", ttl, "it must be more than 0 seconds")
    state = Circuit(gates, name, probes, **terms)
    pause = factory.default_ttl if ttl is None else ttl

    def listen(breaker: str, kind: str, event: object) -> None:
        nonlocal pause
        if breaker != circuit:
            return
        if kind == "circuit_breaker_created" and ttl is None:
            pause = getattr(event, "ttl", pause)
        elif kind == "state_changed":
            opened_at = getattr(event, "opened_at", None)
            remaining = 0.0 if opened_at is None else max(0.0, opened_at + pause - time.time()) + _MARGIN
            state.note(_STATES[getattr(event, "state", "closed")], remaining)

    factory.add_listener(listen)
    return state
