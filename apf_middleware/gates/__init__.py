"""Gates: conditions besides the seats. A request waits for a dependency or a quota in its queue, without a seat."""

from apf_middleware.gates.gate import (
    NO_LEASE,
    QUEUE,
    SKIP,
    Gate,
    GateRequest,
    Hint,
    Park,
    ParkDecision,
    Probe,
    Reject,
    Terms,
)
from apf_middleware.gates.gated_sharing import GatedSharing, GateHooks, GateRequirements
from apf_middleware.gates.headroom_gate import HeadroomGate
from apf_middleware.gates.kinds import Capacity, Condition, CustomGate, OwnGate, Tokens
from apf_middleware.gates.registry import Gates
from apf_middleware.gates.scheduler import GateScheduler
from apf_middleware.gates.slot import Acquisition, AcquisitionStage, Check, Refusal
from apf_middleware.snapshots import ParkedRequest

__all__ = [
    "NO_LEASE",
    "QUEUE",
    "SKIP",
    "Acquisition",
    "AcquisitionStage",
    "Capacity",
    "Check",
    "Condition",
    "CustomGate",
    "Gate",
    "GateHooks",
    "GateRequest",
    "GateRequirements",
    "GateScheduler",
    "GatedSharing",
    "Gates",
    "HeadroomGate",
    "Hint",
    "OwnGate",
    "Park",
    "ParkDecision",
    "ParkedRequest",
    "Probe",
    "Refusal",
    "Reject",
    "Terms",
    "Tokens",
]
