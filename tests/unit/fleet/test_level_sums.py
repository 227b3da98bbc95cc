"""What all members report about a level is summed up, and the heaviest flows are listed."""

from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.fleet.level_sums import MOST_HEAVY, sum_levels
from apf_middleware.fleet.messages import FlowTable, LevelSum, LevelUsage, Report


def report(member: str, **levels: LevelUsage) -> Report:
    return Report(member, 1, 1, 1, 4, 0, levels=levels)


def test_a_flow_counts_with_its_requests_at_all_members() -> None:
    one = LevelUsage(2, 30, 1, FlowTable.of({5: 3, 6: 1}), 1, 2)
    two = LevelUsage(1, 10, 1, FlowTable.of({5: 4}, {5: 2 * WEIGHT_ONE}))
    found = sum_levels([report("a", web=one, batch=LevelUsage(1)), report("b", web=two)])

    flows = FlowTable.of({5: 7, 6: 1}, {5: 2 * WEIGHT_ONE, 6: WEIGHT_ONE})
    assert found == {"batch": LevelSum(1, 0, 0), "web": LevelSum(3, 10, 40, flows)}
    assert list(found) == ["batch", "web"]


def test_only_the_heaviest_flows_are_listed() -> None:
    many = FlowTable.of({flow: flow + 1 for flow in range(2 * MOST_HEAVY)})
    found = sum_levels([report("a", web=LevelUsage(flows=many))])["web"]

    assert found.flows.seats == tuple(range(2 * MOST_HEAVY, MOST_HEAVY, -1))
    assert found.demand == sum(many.seats), "those that aren't listed count, too"


def test_without_reports_there_are_no_levels() -> None:
    assert sum_levels([]) == {}
