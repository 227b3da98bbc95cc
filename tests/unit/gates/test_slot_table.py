"""The slots in use, and those at which something has changed."""

from timeit import repeat

from apf_middleware.gates import Capacity
from apf_middleware.gates.slot_table import SlotTable
from apf_middleware.gates.timers import SlotTimers
from tests.support.gate_world import WIDE


def test_a_changed_slot_is_found_as_fast_among_many() -> None:
    """Also when as many others have been looked at before it."""

    def fastest(number: int) -> float:
        slots, gate = SlotTable(SlotTimers(lambda: 0.5)), Capacity("db", 1, WIDE)
        for key in range(number):
            slots.get(gate, key)
        for key in range(number // 2):
            slots.tidy(0, slots.get(gate, key))
        return min(repeat(lambda: next(iter(slots.dirty)), number=10, repeat=20))

    assert fastest(100_000) < 20 * fastest(100)
