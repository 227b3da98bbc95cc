"""The demands of a flow at all members are added up."""

from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.fleet.flow_sums import sum_flows
from apf_middleware.fleet.messages import FlowTable


def test_the_seats_of_a_flow_are_added_up_and_its_weight_is_the_largest_one() -> None:
    found = sum_flows([FlowTable.of({1: 2, 2: 1}, {1: 5, 2: 4}), FlowTable.of({1: 3}, {1: 6})])

    assert found == {1: [5, 6], 2: [1, 4]}


def test_a_weight_that_one_member_knows_holds_for_all_and_is_one_if_none_does() -> None:
    found = sum_flows([FlowTable.of({1: 2, 2: 1}, {1: 0, 2: 0}), FlowTable.of({1: 3}, {1: WEIGHT_ONE // 4})])

    assert found == {1: [5, WEIGHT_ONE // 4], 2: [1, WEIGHT_ONE]}
