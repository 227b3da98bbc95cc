"""Counters and rejections of gates."""

from apf_middleware.gates import (
    Reject,
)
from tests.support.gate_world import GateWorld, Switch


def test_rejections_can_say_their_own_status_and_time() -> None:
    world = GateWorld(Switch(Reject(status=402, retry_after=7)).gate())
    world.arrive("a", "switch")
    refusal = world.refusals["a"]
    assert refusal is not None
    assert (refusal.gate, refusal.status, refusal.retry_after) == ("switch", 402, 7)
