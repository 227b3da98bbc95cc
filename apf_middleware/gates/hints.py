"""What an event means for one waiting request, where a gate has functions that tell.

They are asked late: when the slot is open and the request's turn has come. A wrong SKIP keeps a request waiting for
nothing, a wrong QUEUE costs a microsecond. So where nobody knows, it is QUEUE.
"""

from typing import TYPE_CHECKING

from apf_middleware.gates.outcomes import Hint

if TYPE_CHECKING:
    from apf_middleware.gates.passage import Passage
    from apf_middleware.gates.slot import Slot

__all__ = ["asks_for"]


def asks_for(slot: "Slot", passage: "Passage", since: int) -> bool:
    """Whether anything that has happened to ``slot`` since that opening may help ``passage``."""
    gate = slot.gate
    if not gate.hints or since < 0:
        return True
    events = [event for opening, event in slot.log if opening > since]
    if len(events) < slot.opening - since:  # more has happened than is remembered
        return True
    return any(event is None or _helps(slot, passage, *event) for event in events)


def _helps(slot: "Slot", passage: "Passage", name: str, payload: object) -> bool:
    hint = slot.gate.hints[name]
    try:
        return hint(payload, passage.request) is not Hint.SKIP
    except Exception:  # noqa: BLE001 - whatever an app's function raises
        slot.gate.tally.hint_errors += 1
        return True
