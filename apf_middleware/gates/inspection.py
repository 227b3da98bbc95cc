"""Whether what is kept of gates and of those who wait adds up; for tests, and apart as nobody else needs to read it."""

from typing import TYPE_CHECKING

from apf_middleware.gates.passage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apf_middleware.gates.gate import Gate
    from apf_middleware.gates.passage import Passage
    from apf_middleware.gates.slot import Slot

__all__ = ["check_gates"]


def check_gates(gates: "Iterable[Gate]", passages: "Iterable[Passage]") -> None:
    """Raise AssertionError where what is kept doesn't add up, or where one who may try is left standing."""
    passages = list(passages)
    for gate in gates:
        gate.check()
        here = sum(1 for passage in passages if passage.slot is not None and passage.slot.gate is gate)
        assert gate.parked == here, f"{here} wait for {gate!r}"
        for slot in gate.slots.values():
            _check_lines(slot)
    for passage in passages:
        if passage.stage is Stage.PARKED:
            assert passage.slot is not None, f"{passage!r} waits nowhere"
            assert passage in set(passage.slot), f"{passage!r} isn't where it waits"


def _check_lines(slot: "Slot") -> None:
    """Where anybody may try, somebody does."""
    for line in slot.lines.values():
        if line.candidate is None and not slot.is_busy:
            holder = slot.holder
            best = line.best(slot.reach) if holder is None else slot.next_of(line)
            assert best is None or best.cost_at(slot) >= slot.reach, f"nobody tries in {line!r}"
