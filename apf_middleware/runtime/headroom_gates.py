"""The gates of levels with headroom: made from the configuration, and changed by a reload."""

from functools import partial

from apf_middleware.config.objects import headroom_gate_name
from apf_middleware.estimation import LearnedCosts
from apf_middleware.fairqueuing.headroom import Headroom
from apf_middleware.gates import GateRequest, Gates, HeadroomGate
from apf_middleware.runtime.registry import LevelRegistry

__all__ = ["adopt_headroom"]


def adopt_headroom(gates: Gates, registry: LevelRegistry, costs: LearnedCosts) -> None:
    """Create or change the gates of levels with headroom, and remove the others; leases stay valid."""
    scheduler = gates.scheduler
    before = {name for name, gate in scheduler.gates.items() if isinstance(gate, HeadroomGate)}
    for name, level in registry.configuration.levels.items():
        if not level.headroom_percent:
            continue
        gate_name = headroom_gate_name(name)
        gate = scheduler.gates.get(gate_name)
        if isinstance(gate, HeadroomGate):
            before.discard(gate_name)
            gate.headroom.resize(level.headroom_percent)
            scheduler.open_slots(gates.now(), gate)
            continue
        scheduler.add(
            HeadroomGate(
                gate_name,
                Headroom(level.headroom_percent),
                expected_ns=partial(_expected_ns, costs),
                seats=partial(_seats, registry, name),
                clock=gates.now,
            )
        )
    for gate_name in before:
        scheduler.retire(gates.now(), gate_name)


def _expected_ns(costs: LearnedCosts, request: GateRequest) -> int | None:
    found = costs.guess(request.route)
    return None if found is None else int(found.duration_ns)


def _seats(registry: LevelRegistry, name: str) -> int:
    # A level that drains isn't found any more; whatever waits there may then pass.
    runtime = registry.levels.get(name)
    return 2**31 if runtime is None else runtime.shared.current
