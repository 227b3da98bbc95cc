"""Flows have labels that only who knows the key can compute."""

from dataclasses import replace

from apf_middleware.fleet import flow_labels
from apf_middleware.fleet.flow_labels import FlowLabels
from apf_middleware.fleet.messages import FlowTable, LevelUsage


def test_members_with_the_same_key_give_a_flow_the_same_label() -> None:
    one, two, other = FlowLabels(b"shop:secret"), FlowLabels(b"shop:secret"), FlowLabels(b"shop:")

    assert one.label(7) == one.label(7) == two.label(7)
    assert len({one.label(7), one.label(8), other.label(7), 7}) == 4
    assert 0 <= one.label(2**64 - 1) < 2**64


def test_a_key_may_be_longer_than_that_of_the_hash_function() -> None:
    assert FlowLabels(b"x" * 1000).label(1) != FlowLabels(b"x" * 1001).label(1)


def test_usages_keep_everything_but_the_flows() -> None:
    labels = FlowLabels(b"key")
    usage = LevelUsage(3, 20, 1, FlowTable.of({5: 7, 6: 1}, {5: 65536, 6: 131072}), 2, 4)
    found = labels.labelled({"web": usage, "idle": LevelUsage()})

    assert list(found["web"].flows.rows()) == [(labels.label(5), 7, 65536), (labels.label(6), 1, 131072)]
    assert replace(found["web"], flows=usage.flows) == usage
    assert found["idle"] == LevelUsage()


def test_factors_are_those_of_flows_that_were_labelled() -> None:
    labels = FlowLabels(b"key")
    label = labels.label(5)

    assert labels.found({label: 9, 17: 3}) == {5: 9}
    assert (labels.flow(label), labels.flow(17)) == (5, None)


def test_the_number_of_flows_that_are_remembered_is_limited() -> None:
    labels = FlowLabels(b"key")
    first = labels.label(0)
    for flow in range(1, flow_labels._MOST + 1):
        labels.label(flow)

    assert repr(labels) == "<FlowLabels: 1 flows>"
    assert labels.found({first: 1}) == {}
    assert labels.label(0) == first
