"""Conditions beside the seats: who needs a dependency or a quota waits for it in its queue, without a seat."""

from apf_middleware.gates.gate import Gate, Hold, Terms
from apf_middleware.gates.gatekeeper import GateKeeper
from apf_middleware.gates.gates import Gates, GateStage
from apf_middleware.gates.kinds import Capacity, Condition, Own, OwnGate, Tokens
from apf_middleware.gates.outcomes import NO_LEASE, QUEUE, SKIP, Hint, Park, Probe, Reject
from apf_middleware.gates.passage import Check, GateRequest, Passage, Refusal, Stage
from apf_middleware.gates.sharing import Asked, GatedSharing
from apf_middleware.gates.slot import Due, Slot
from apf_middleware.snapshots import ParkedRequest

__all__ = [
    "NO_LEASE",
    "QUEUE",
    "SKIP",
    "Asked",
    "Capacity",
    "Check",
    "Condition",
    "Due",
    "Gate",
    "GateKeeper",
    "GateRequest",
    "GateStage",
    "GatedSharing",
    "Gates",
    "Hint",
    "Hold",
    "Own",
    "OwnGate",
    "Park",
    "ParkedRequest",
    "Passage",
    "Probe",
    "Refusal",
    "Reject",
    "Slot",
    "Stage",
    "Terms",
    "Tokens",
]
