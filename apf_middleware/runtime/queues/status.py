"""The status of named queues, for tables and screens, computed at each call.

Counts are sums of counters that the server keeps anyway. At any time,

    arrived = completed + failed + aborted + rejected + inqueue + pending + running.

A request *failed* if the app raised or answered with a status of 500 or more, or if it got its seats after its deadline
and wasn't run. A request was *aborted* if its client left while it waited, or its task was cancelled while it ran.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Final

from apf_middleware.fairqueuing import Reason
from apf_middleware.fairqueuing.sharing.ledger import is_parent_closed
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand, whole_parts, with_surplus
from apf_middleware.runtime.queues.states import requested_state_of, state_of
from apf_middleware.snapshots import NamedQueueSnapshot

if TYPE_CHECKING:
    from apf_middleware.config.objects import Level
    from apf_middleware.fairqueuing import SharedLevel
    from apf_middleware.fairqueuing.sharing.grant import SeatGrant
    from apf_middleware.fairqueuing.sharing.hierarchy import Parent
    from apf_middleware.runtime.level import LevelRuntime
    from apf_middleware.runtime.registry import LevelRegistry

__all__ = ["find_deserved", "look_at_queues"]

_CENT: Final = 100  # deserved seats are shown in hundredths, rounded so that their sum is right


@dataclass(slots=True)
class _Counts:
    used: int = 0
    inqueue: int = 0
    pending: int = 0
    running: int = 0
    finished: int = 0
    failed: int = 0
    aborted: int = 0
    cancelled: int = 0
    is_idle: bool = True

    def add(self, runtime: "LevelRuntime", rejected: dict[str, int]) -> None:
        queueset = runtime.shared.queueset
        self.used += runtime.shared.in_use
        self.is_idle = self.is_idle and runtime.shared.is_idle
        self.pending += queueset.parked
        self.inqueue -= queueset.parked  # parked requests count as waiting below
        for counters in (*runtime.schema_counters.values(), runtime.forgotten):
            self.inqueue += counters.waiting
            self.running += counters.executing
            self.finished += counters.executions.count + counters.streams.count
            self.failed += counters.failed.ended + counters.late
            self.aborted += counters.aborted.ended
            for reason, number in counters.rejected.items():
                if reason is Reason.CANCELLED:
                    self.cancelled += number
                elif number:
                    rejected[reason.value] = rejected.get(reason.value, 0) + number


def find_deserved(registry: "LevelRegistry", grant: "SeatGrant | None" = None) -> dict[str, Fraction]:
    """Return the seats that each queue deserves now, including its part of the seats that no queue asks for.

    An exempt level deserves the seats that it uses, and the other levels divide the rest. At a member of a fleet, the
    queues divide the seats of the whole fleet; with the member's ``grant``, they divide those that it has itself.
    """
    runtimes, parents, found, demands = registry.levels, registry.sharing.parents, {}, {}
    seats = registry.sharing.seats if grant is None else grant.seats
    for name, level in registry.configuration.levels.items():
        runtime = runtimes.get(name)
        part: SharedLevel | Parent
        if runtime is None:
            part, used, demand = parents[name], 0, 0
            is_closed = is_parent_closed(part, [one.shared for one in registry])
        else:
            part = shared = runtime.shared
            used = shared.in_use
            demand = used if shared.is_held else used + shared.queueset.seats_waiting
            is_closed = shared.is_closing and shared.is_idle
        if level.exempt:
            found[name] = Fraction(used)
            seats -= used
            continue
        limits = registry.limits[name]
        weight, least, most = level.shares.shares, limits.min, limits.max
        if grant is not None:
            weight, least, most = part.weight, part.least, part.most
        if is_closed:
            least = most = 0
        demands[name] = SeatDemand(weight, demand, least, max(least, most), level.parent)
    return found | with_surplus(max(seats, 0), demands)


def _in_cents(deserves: Mapping[str, Fraction], levels: Mapping[str, "Level"]) -> dict[str, int]:
    """Round to hundredths of a seat; keep the sum of the server, and the sum of the children of each parent."""
    cents = {name: amount * _CENT for name, amount in deserves.items()}
    top = {name: amount for name, amount in cents.items() if levels[name].parent is None}
    found = whole_parts(top, int(sum(top.values())))
    for parent in {level.parent for level in levels.values() if level.parent is not None}:
        children = {name: amount for name, amount in cents.items() if levels[name].parent == parent}
        # Children that are closed or at their max may deserve less than their parent: then nothing is to be added.
        found |= whole_parts(children, min(found[parent], ceil(sum(children.values()))))
    return found


def look_at_queues(registry: "LevelRegistry", live: Container[str]) -> list[NamedQueueSnapshot]:
    """Return all queues, each parent before its children; ``live`` are those that differ from the files."""
    deserves = find_deserved(registry)
    levels = registry.configuration.levels
    cents = _in_cents(deserves, levels)
    in_order = sorted(levels, key=lambda name: (levels[name].parent or name, levels[name].parent is not None, name))
    return [_look(registry, levels[name], Fraction(cents[name], _CENT), is_live=name in live) for name in in_order]


def _look(registry: "LevelRegistry", level: "Level", deserves: Fraction, *, is_live: bool) -> NamedQueueSnapshot:
    levels, name = registry.configuration.levels, level.name
    children = tuple(sorted(one.name for one in levels.values() if one.parent == name))
    counts, rejected = _Counts(), dict[str, int]()
    for working in children or (name,):
        counts.add(registry.levels[working], rejected)
    parent = levels[level.parent] if level.parent is not None else None
    requested = requested_state_of(level, parent)
    limits = registry.limits[name]
    seats = registry.sharing.seats
    return NamedQueueSnapshot(
        name=name,
        parent=level.parent,
        state=state_of(requested, is_idle=counts.is_idle),
        weight=level.shares.shares,
        min=limits.min,
        deserved=float(deserves),
        used=counts.used,
        max=min(limits.max, seats),
        capacity=min(_most(registry, name), seats),
        inqueue=counts.inqueue,
        pending=counts.pending,
        running=counts.running,
        completed=counts.finished - counts.failed - counts.aborted,
        failed=counts.failed,
        aborted=counts.aborted + counts.cancelled,
        rejected=dict(sorted(rejected.items())),
        share=float(counts.used / deserves) if deserves else float(counts.used > 0),
        source="live" if is_live else "file",
        generation=registry.generation_of(name),
        priority=level.priority,
        reclaimable=level.reclaimable,
        dequeue_strategy=level.dequeue_strategy,
        exempt=level.exempt,
        closed_by_parent=requested == "closed" != level.state,
        children=children,
    )


def _most(registry: "LevelRegistry", name: str) -> int:
    """Return the most seats that a queue could have, if all others used no more than their mins."""
    parent = registry.sharing.parents.get(name)
    return registry.levels[name].shared.ceiling if parent is None else parent.most
