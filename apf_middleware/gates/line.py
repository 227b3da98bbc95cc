"""Those of one level whom one slot keeps waiting, in the order in which they may try when it opens.

Fair among flows, in order of arrival within one: start-time fair queuing. Each flow has a virtual start for its next
request; the least virtual finish comes first; a flow is charged when one of its requests has passed. The line's own
virtual time is the start of whoever passed last, and a flow that comes anew begins there. So who has 10,000 requests
waiting for a quota doesn't keep away who has one.

Only one of a line tries at a time, the *candidate*. That is enough for all to be served: when it has passed, the next
one is. And it is why opening a slot costs the same however many wait there.

Requests of different costs stand apart, for a slot may be open to small ones only. Of those that a slot is open to, a
flow's turn is for the one that came first.
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from apf_middleware.gates.passage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apf_middleware.fairqueuing import SharedLevel
    from apf_middleware.gates.passage import Passage
    from apf_middleware.gates.slot import Slot

__all__ = ["Line"]

_MOST_STALE: Final = 64

_Entry = tuple[int, int, "Passage"]  # number, and which of its stays here this is


class _Flow:
    """One flow in a line."""

    __slots__ = ("classes", "count", "name", "start", "turns")

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = start  # virtual, of its next request
        self.count = 0
        self.classes: dict[int, list[_Entry]] = {}  # by cost, heaps
        self.turns: dict[int, tuple[int, int]] = {}  # by cost, which entry among the line's turns is the valid one


class Line:
    """Who waits in ``level`` for ``slot``."""

    __slots__ = ("_flows", "_turns", "_virtual", "aside", "candidate", "length", "level", "slot", "turn")

    def __init__(self, slot: "Slot", level: "SharedLevel") -> None:
        self.slot: Slot = slot
        self.level: SharedLevel = level
        self.turn: int = 0  # how often the slot's first was one of this line
        self.length: int = 0  # the candidate not included
        self.candidate: Passage | None = None
        self.aside: dict[Passage, None] = {}  # whom the event that opened the slot can't help
        self._virtual = 0
        self._flows: dict[str, _Flow] = {}
        self._turns: dict[int, list[tuple[int, int, _Flow]]] = {}  # by cost, heaps of (finish, number, flow)

    def put(self, passage: "Passage", cost: int, *, is_back: bool = False) -> None:
        """Let it stand here, at its place; one that ``is_back`` was the candidate until now, and nobody has passed."""
        flow = self._flows.get(passage.flow)
        if flow is None:
            flow = self._flows[passage.flow] = _Flow(passage.flow, self._virtual)
        elif not flow.count and flow.start < self._virtual and not is_back:
            flow.start = self._virtual
        flow.count += 1
        self.length += 1
        waiting = flow.classes.setdefault(cost, [])
        passage.stay += 1
        heappush(waiting, (passage.number, passage.stay, passage))
        if waiting[0][2] is passage:
            self._give_turn(flow, passage, cost)

    def _give_turn(self, flow: _Flow, passage: "Passage", cost: int) -> None:
        """``passage`` is the flow's first of this cost, or its start is another one."""
        turns = self._turns.setdefault(cost, [])
        flow.turns[cost] = turn = (flow.start + passage.ticket.total_work, passage.number)
        heappush(turns, (*turn, flow))
        if len(turns) > 2 * len(self._flows) + _MOST_STALE:
            self._turns[cost] = turns = [entry for entry in turns if entry[2].turns.get(cost) == entry[:2]]
            heapify(turns)

    def best(self, below: int) -> "Passage | None":
        """Whose turn it is among those whose cost is ``below`` that."""
        found: tuple[int, int, Passage] | None = None
        for cost in [cost for cost in self._turns if cost < below]:
            first = self._first(cost)
            if first is not None and (found is None or first[:2] < found[:2]):
                found = first
        return None if found is None else self._earliest_below(self._flows[found[2].flow], below)

    def _earliest_below(self, flow: _Flow, below: int) -> "Passage | None":
        heads = [head for cost in list(flow.classes) if cost < below and (head := self._head(flow, cost)) is not None]
        return min(heads, key=lambda passage: passage.number)

    def _first(self, cost: int) -> "tuple[int, int, Passage] | None":
        while turns := self._turns[cost]:
            finish, number, flow = turns[0]
            if flow.turns.get(cost) != (finish, number):
                heappop(turns)
                continue
            passage = self._head(flow, cost)
            if passage is None:
                heappop(turns)
                del flow.turns[cost]
                continue
            if (flow.start + passage.ticket.total_work, passage.number) == (finish, number):
                return finish, number, passage
            heappop(turns)  # its flow has been charged since, or somebody has left
            self._give_turn(flow, passage, cost)
        del self._turns[cost]
        return None

    def _head(self, flow: _Flow, cost: int) -> "Passage | None":
        """Its first of this cost, past those who aren't here any more."""
        waiting = flow.classes.get(cost)
        while waiting and not self._is_here(waiting[0]):
            heappop(waiting)
        if not waiting:
            flow.classes.pop(cost, None)
            return None
        return waiting[0][2]

    def _is_here(self, entry: _Entry) -> bool:
        _, stay, passage = entry
        return (
            stay == passage.stay
            and passage.stage is Stage.PARKED
            and passage.slot is self.slot
            and passage is not self.candidate
            and passage.asked != self.slot.opening  # or it is aside
        )

    def earliest(self, flow: str, cost: int) -> "Passage | None":
        """The first of this flow and cost that stands here."""
        known = self._flows.get(flow)
        return None if known is None else self._head(known, cost)

    def count_of(self, flow: str) -> int:
        known = self._flows.get(flow)
        return 0 if known is None else known.count

    def take(self, passage: "Passage", cost: int) -> None:
        """It isn't here any more, is aside, or is the candidate: the caller has marked it so."""
        flow = self._flows[passage.flow]
        flow.count -= 1
        self.length -= 1
        waiting = flow.classes.get(cost)
        if waiting and len(waiting) > 2 * flow.count + _MOST_STALE:
            flow.classes[cost] = waiting = [entry for entry in waiting if self._is_here(entry)]
            heapify(waiting)
        first = self._head(flow, cost)
        if first is not None and flow.turns.get(cost, (0, -1))[1] != first.number:
            self._give_turn(flow, first, cost)
        self._forget_idle()

    def charge(self, passage: "Passage") -> None:
        """One that was the candidate has passed: its flow has had its turn.

        A flow whose requests need much may be passed by others again and again, which are charged for it. It must not
        keep that as a claim: the others would be kept waiting for as long as they had used what it couldn't use. So
        after its turn no flow lies behind the line's virtual time. Where all need the same this changes nothing, for
        the least finish goes first, and nobody has passed who starts after it.
        """
        flow = self._flows.get(passage.flow)
        if flow is None:
            flow = self._flows[passage.flow] = _Flow(passage.flow, self._virtual)
        self._virtual = max(self._virtual, flow.start)
        flow.start = max(flow.start + passage.ticket.total_work, self._virtual)

    def _forget_idle(self) -> None:
        """Flows without anybody here are kept only as long as they owe something."""
        if not self.length and self.candidate is None:
            self._flows.clear()
            self._turns.clear()
            self._virtual = 0
        elif len(self._flows) > 2 * (self.length + _MOST_STALE):
            self._flows = {name: flow for name, flow in self._flows.items() if flow.count}

    def __iter__(self) -> "Iterator[Passage]":
        """In no particular order."""
        for flow in self._flows.values():
            for waiting in flow.classes.values():
                yield from (entry[2] for entry in waiting if self._is_here(entry))

    @property
    def is_empty(self) -> bool:
        return not self.length and self.candidate is None and not self.aside

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up."""
        here = list(self)
        assert len({passage.number for passage in here}) == len(here), f"somebody stands twice in {self!r}"
        assert self.length == len(here), f"{len(here)} stand in {self!r}"
        for passage in here:
            assert passage.number not in {one.number for one in self.aside}, f"{passage!r} stands in two places"
        for cost in {cost for flow in self._flows.values() for cost in flow.classes}:
            if any(self._head(flow, cost) is not None for flow in self._flows.values()):
                assert self._turns.get(cost), f"nobody of cost {cost} has a turn in {self!r}"

    def __repr__(self) -> str:
        return f"<Line of {self.length} for {self.slot!r}>"
