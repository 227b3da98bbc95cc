"""Token buckets take a bounded amount of memory."""

from apf_middleware.gates import GateRequest, Hold, Terms, Tokens, kinds
from tests.unit.gates.gateworld import SECOND

REQUEST = GateRequest("level", "schema", "flow")


def test_of_many_flows_at_low_rates_those_nearest_to_full_are_forgotten() -> None:
    most = kinds._MOST_BUCKETS
    gate = Tokens("quota", 0.001, 2, terms=Terms(), key=lambda request: request.flow)
    assert gate.acquire(0, REQUEST, "heavy", 2) == 2
    for number in range(2 * most):
        assert gate.acquire(number, REQUEST, number, 1) == 1
        assert len(gate._full_at) <= most

    assert isinstance(gate.acquire(SECOND, REQUEST, "heavy", 1), Hold), "the emptiest bucket is kept"
    assert 0 not in gate._full_at
    gate.undo(0, 1)
    assert 0 not in gate._full_at


def test_full_buckets_are_forgotten_first() -> None:
    gate = Tokens("quota", 1, 2, terms=Terms(), key=lambda request: request.flow)
    for number in range(1000):
        gate.acquire(number * SECOND, REQUEST, number, 1)

    assert len(gate._full_at) <= 64
