"""The order in which parked requests may try: fair among flows, and by arrival within a flow.

It is a general collection, independent of gates: it orders items by numbers that the caller passes.

`WidthIndexedHeap`, the order of the disciplines in `fairqueuing`, can't be used here. It orders a fixed set of queues
in classes of widths, so it may miss an item that fits behind a wider one of its class. In a queue set such a miss only
prevents a back-fill. At a slot it would be a lost wake-up: the gate is open to the request, but the request never
tries. `FairOrder` finds every item that fits. It is slower, but only requests that wait for a gate use it.
"""

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

__all__ = ["FairOrder"]

_MOST_STALE: Final = 64

_T = TypeVar("_T", bound=Hashable)


class _Entry(Generic[_T]):
    """The place of an item; an entry is stale if the order has another entry, or none, for the item."""

    __slots__ = ("cost", "flow", "item", "number", "work")

    def __init__(self, item: _T, flow: "_Flow[_T]", number: int, cost: int, work: int) -> None:
        self.item: _T = item
        self.flow: _Flow[_T] = flow
        self.number: int = number
        self.cost: int = cost
        self.work: int = work

    def __lt__(self, other: "_Entry[_T]") -> bool:
        return self.number < other.number


class _Flow(Generic[_T]):
    """The items of one flow, as heaps by cost; ``start`` is the virtual start of the next item."""

    __slots__ = ("by_cost", "count", "name", "start", "turns")

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = start
        self.count = 0
        self.by_cost: dict[int, list[_Entry[_T]]] = {}
        self.turns: dict[int, tuple[int, int]] = {}  # by cost, the entry of ``FairOrder._turns`` that is valid


class FairOrder(Generic[_T]):
    """Start-time fair queuing among flows; within a flow, items are ordered by number.

    Each flow has a virtual start for its next item; the flow with the least virtual finish is next, and it is charged
    when one of its items is served. The virtual time of the order is the start of the item that was served last, and a
    new flow begins there. So a flow with a single item doesn't wait for all items of a flow with 10,000.

    A search may be limited to items that cost less than a bound, so there is a heap for each cost. When it is a flow's
    turn, its item with the least number among those is next. Each operation takes O(log n) for each cost that occurs.
    """

    __slots__ = ("_entries", "_flows", "_turns", "_virtual")

    def __init__(self) -> None:
        self._entries: dict[_T, _Entry[_T]] = {}
        self._virtual = 0
        self._flows: dict[str, _Flow[_T]] = {}
        self._turns: dict[int, list[tuple[int, int, str]]] = {}  # by cost, heaps of (finish, number, flow)

    def add(self, item: _T, flow: str, *, number: int, cost: int, work: int, is_back: bool = False) -> None:
        """Add ``item``; ``is_back`` if it has tried in vain, and no item has been served since."""
        known = self._flows.get(flow)
        if known is None:
            known = self._flows[flow] = _Flow(flow, self._virtual)
        elif not known.count and known.start < self._virtual and not is_back:
            known.start = self._virtual
        known.count += 1
        entry = self._entries[item] = _Entry(item, known, number, cost, work)
        waiting = known.by_cost.setdefault(cost, [])
        heappush(waiting, entry)
        if waiting[0] is entry:
            self._give_turn(known, entry)

    def _give_turn(self, flow: _Flow[_T], entry: _Entry[_T]) -> None:
        """Push the turn of ``entry``, which has become the flow's first of its cost, or has got another finish."""
        turns = self._turns.setdefault(entry.cost, [])
        flow.turns[entry.cost] = turn = (flow.start + entry.work, entry.number)
        heappush(turns, (*turn, flow.name))
        if len(turns) > 2 * len(self._flows) + _MOST_STALE:
            turns[:] = [known for known in turns if self._is_valid(known, entry.cost)]
            heapify(turns)

    def _is_valid(self, turn: tuple[int, int, str], cost: int) -> bool:
        flow = self._flows.get(turn[2])
        return flow is not None and flow.turns.get(cost) == turn[:2]

    def first(self, below: int) -> _T | None:
        """Return the next item in turn, of those that cost less than ``below``."""
        found: tuple[int, int, str] | None = None
        for cost in [cost for cost in self._turns if cost < below]:
            turn = self._next_turn(cost)
            if turn is not None and (found is None or turn < found):
                found = turn
        if found is None:
            return None
        flow = self._flows[found[2]]
        if len(flow.by_cost) == 1:
            return flow.by_cost[next(iter(flow.by_cost))][0].item
        heads = [self._head(flow, cost) for cost in list(flow.by_cost) if cost < below]
        return min(head for head in heads if head is not None).item

    def _next_turn(self, cost: int) -> tuple[int, int, str] | None:
        while turns := self._turns[cost]:
            if not self._is_valid(turns[0], cost):
                heappop(turns)
                continue
            finish, number, name = turns[0]
            flow = self._flows[name]
            head = self._head(flow, cost)
            if head is None:
                heappop(turns)
                del flow.turns[cost]
                continue
            if (flow.start + head.work, head.number) == (finish, number):
                return turns[0]
            # The flow has been charged since, so its finish is later. Charging leaves the heaps alone, because a flow
            # may have turns in many of them; each is corrected when it comes to the top.
            heappop(turns)
            self._give_turn(flow, head)
        del self._turns[cost]
        return None

    def _head(self, flow: _Flow[_T], cost: int) -> _Entry[_T] | None:
        """Return the flow's first entry of this cost, after dropping stale ones."""
        waiting = flow.by_cost.get(cost)
        while waiting and self._entries.get(waiting[0].item) is not waiting[0]:
            heappop(waiting)
        if not waiting:
            flow.by_cost.pop(cost, None)
            return None
        return waiting[0]

    def first_of(self, flow: str, cost: int) -> _T | None:
        """Return the first item of this flow and cost."""
        known = self._flows.get(flow)
        head = None if known is None else self._head(known, cost)
        return None if head is None else head.item

    def count_of(self, flow: str) -> int:
        """Return the number of items of this flow."""
        known = self._flows.get(flow)
        return 0 if known is None else known.count

    def remove(self, item: _T) -> None:
        """Remove ``item``, whether or not it will be served."""
        entry = self._entries.pop(item)
        flow = entry.flow
        flow.count -= 1
        waiting = flow.by_cost.get(entry.cost)
        if waiting and len(waiting) > 2 * flow.count + _MOST_STALE:
            waiting[:] = [one for one in waiting if self._entries.get(one.item) is one]
            heapify(waiting)
        head = self._head(flow, entry.cost)
        if head is not None and flow.turns.get(entry.cost, (0, -1))[1] != head.number:
            self._give_turn(flow, head)  # it may cost less work, and then its turn comes earlier
        # Flows without items keep their charges until there are many of them.
        if len(self._flows) > 2 * (len(self._entries) + _MOST_STALE):
            self._flows = {name: flow for name, flow in self._flows.items() if flow.count}

    def charge(self, flow: str, work: int) -> None:
        """Charge ``flow`` for an item of this ``work`` that has been served.

        If the items of a flow cost much, other flows can pass them again and again, and are charged for this. When the
        flow's turn comes at last, its start is therefore far behind the virtual time. It must not keep this advantage:
        the other flows would have to wait, although they only used what this flow couldn't use. So the start of a flow
        that is charged is raised to the virtual time. If all items cost the same, this changes nothing: items are
        served in the order of their finish, so no item has been served whose start is later than this flow's new start.
        """
        known = self._flows.get(flow)
        if known is None:
            known = self._flows[flow] = _Flow(flow, self._virtual)
        self._virtual = max(self._virtual, known.start)
        known.start = max(known.start + work, self._virtual)

    def __contains__(self, item: object) -> bool:
        return item in self._entries

    def __iter__(self) -> Iterator[_T]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def check(self) -> None:
        """Raise AssertionError if the indexes disagree."""
        assert sum(flow.count for flow in self._flows.values()) == len(self._entries), f"wrong counts in {self!r}"
        for item, entry in self._entries.items():
            assert self._flows[entry.flow.name] is entry.flow, f"the flow of {item!r} has been forgotten in {self!r}"
            assert self._head(entry.flow, entry.cost) is not None, f"{item!r} isn't found in {self!r}"
            assert self._turns.get(entry.cost), f"no item of cost {entry.cost} has a turn in {self!r}"

    def __repr__(self) -> str:
        return f"<FairOrder of {len(self)}>"
