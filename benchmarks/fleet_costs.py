"""What the members and the allocator of a fleet have to compute: ``python -m benchmarks.fleet_costs [--json]``.

exchange  one member with 100 flows of which requests run and wait: its report until that can be sent, and the grant
          with which it is answered, from its text until it is in force; in microseconds
interval  the allocator of 1,000 members with 100 flows each: all reports, from their texts until they are taken, one
          division, and the texts of all grants; in milliseconds. Either each member has flows of its own, or all have
          the same

Processor time, the median of the repetitions; sending isn't included. ``unit_us`` is the time to push 1,000 entries
onto a heap and to pop them again, in the same run: divide by it to compare machines.
"""

import argparse
import hashlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Work
from apf_middleware.fleet.allocator import Allocator
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.membership import Membership
from apf_middleware.fleet.messages import FlowTable, LevelUsage, Report, read_message, write
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.fleet.budget import derive_budget
from apf_middleware.runtime.fleet.member import FleetMember
from benchmarks.measure import print_json, print_table, unit_us

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import Lending
    from apf_middleware.fleet.messages import Grant

__all__ = ["MemberWithFlows", "measure"]

Row = dict[str, Any]
T = TypeVar("T")

_CONFIGURATION: Final = """
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none, fleet: {{name: shop}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 1000, queuing: {{queues: exact}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, rules: [{{httpRules: [{{}}]}}]}}
"""
_TURN_NS: Final = 50_000_000
_LEASE_NS: Final = 10**12  # none ends meanwhile


class Stopwatch:
    """Times of the parts of what is measured, in nanoseconds of processor time."""

    def __init__(self) -> None:
        self._times: dict[str, list[int]] = {}

    def time(self, part: str, run: Callable[[], T]) -> T:
        begin = time.thread_time_ns()
        result = run()
        self._times.setdefault(part, []).append(time.thread_time_ns() - begin)
        return result

    def medians(self, unit_ns: int) -> Row:
        """Return the median of each part, and of all together."""
        found = {part: statistics.median(times) / unit_ns for part, times in self._times.items()}
        return {**{part: round(value, 1) for part, value in found.items()}, "all": round(sum(found.values()), 1)}


class MemberWithFlows:
    """A member without a store and its allocator; for each flow, seats are in use and several requests wait."""

    def __init__(self, flows: int) -> None:
        self.now = 0
        configuration = load_text(_CONFIGURATION.format(seats=2 * flows))
        controller = Controller(configuration, now=lambda: self.now)
        membership = Membership("member", lease_ns=_LEASE_NS)
        membership.join(1)
        budget = derive_budget(configuration)
        self.allocator = _allocator(budget)
        sharing = cast("Lending", controller.sharing)
        self.member = FleetMember(membership, sharing, controller, now=lambda: self.now, interval_ns=_TURN_NS)
        controller.member = self.member
        self.exchange(Stopwatch())
        for number in range(5 * flows):
            flow = f"flow-{number % flows}"
            entropy = int.from_bytes(hashlib.sha256(flow.encode()).digest()[:8], "big")
            admission = Admission(controller.destination(Classification("all", "web", flow, entropy), Work()))
            controller.arrive(self.now, admission)

    def exchange(self, watch: Stopwatch) -> int:
        """Send a report and apply the answer; return the number of flows that were reported."""
        self.now += _TURN_NS
        text = watch.time("report", lambda: write(self.member.report()))
        report = cast("Report", read_message(text))
        self.allocator.receive(self.now, report)
        answer = write(self.allocator.divide(self.now, {report.member})[report.member])
        watch.time("grant", lambda: self.member.receive(cast("Grant", read_message(answer))))
        return sum(len(usage.flows) for usage in report.levels.values())


def _allocator(budget: Budget) -> Allocator:
    return Allocator(budget, epoch=1, now=0, lease_ns=_LEASE_NS, margin_ns=0, turn_ns=_TURN_NS, expected=())


def _reports(number: int, members: int, flows: int, *, own: bool) -> Iterator[bytes]:
    """Yield the texts of all members' reports; ``own`` flows are those of one member only."""
    for member in range(members):
        first = member * flows if own else 0
        demands = {(first + flow) * 7919: 1 + (member + flow + number) % 5 for flow in range(flows)}
        usage = LevelUsage(2, 10, 1, FlowTable.of(demands))
        yield write(Report(f"member-{member}", number, 1, 0, 0, 0, levels={"web": usage}))


def _take(allocator: Allocator, now: int, texts: Sequence[bytes]) -> None:
    for text in texts:
        allocator.receive(now, cast("Report", read_message(text)))


def _interval(members: int, flows: int, repetitions: int, *, own: bool) -> Row:
    allocator = _allocator(derive_budget(load_text(_CONFIGURATION.format(seats=2 * members))))
    watch = Stopwatch()
    for number in range(1, repetitions + 1):
        now, texts = number * _TURN_NS, list(_reports(number, members, flows, own=own))
        watch.time("reports", partial(_take, allocator, now, texts))
        grants = watch.time("division", partial(allocator.divide, now, allocator.accounts.keys()))
        watch.time("grants", partial(list, map(write, grants.values())))
    return {"row": "interval", "members": members, "flows": f"{flows} {'own' if own else 'shared'}", "unit": "ms"} | (
        watch.medians(1_000_000)
    )


def measure(members: int = 1_000, flows: int = 100, repetitions: int = 20) -> list[Row]:
    """Return a row for an exchange, and one for each kind of flows at the allocator."""
    member, watch = MemberWithFlows(flows), Stopwatch()
    reported = [member.exchange(watch) for _ in range(10 * repetitions)]
    if set(reported) != {flows}:
        raise RuntimeError(f"the reports have {set(reported)} flows")
    exchange = {"row": "exchange", "members": 1, "flows": str(flows), "unit": "us"} | watch.medians(1_000)
    return [exchange, *[_interval(members, flows, repetitions, own=own) for own in (True, False)]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet_costs", description="What a fleet computes.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--flows", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_args()
    rows = [
        row | {"unit_us": round(unit_us(), 1)} for row in measure(options.members, options.flows, options.repetitions)
    ]
    if options.json:
        print_json(rows)
        return
    columns = ("row", "members", "flows", "unit", "report", "grant", "reports", "division", "grants", "all", "unit_us")
    print_table(columns, [[row.get(column, "") for column in columns] for row in rows])


if __name__ == "__main__":
    main()
