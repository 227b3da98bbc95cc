"""Layouts side by side."""

from dataclasses import replace

from apf_middleware.simulation import simulate
from apf_middleware.simulation.fleet import LAYOUTS, layout
from apf_middleware.simulation.fleet.comparison import compare_layouts, largest_deviation
from tests.support.fleet_scenarios import fleet_scenario


def test_a_fleet_is_nearly_one_big_server_and_a_split_is_not() -> None:
    given = fleet_scenario("  members: 5\n  balancing: sticky\n")
    one, split, fleet = compare_layouts([simulate(*layout(name, *given), name=name) for name in LAYOUTS])

    assert [row.layout for row in (one, split, fleet)] == ["one-server", "split", "fleet"]
    assert one.deviation == 0
    assert one.goodput > 0.98
    assert split.goodput < 0.6
    assert split.deviation > 0.4
    assert split.deviating in ("elephant", "second")
    assert fleet.goodput > 0.97
    assert fleet.deviation < 0.05
    assert max(one.most_in_use, split.most_in_use, fleet.most_in_use) == 20
    assert (one.wait_p99_ms or 0) < (split.wait_p99_ms or 0)
    assert one.served == 1


def test_the_largest_deviation_is_relative_and_leaves_out_idle_tenants() -> None:
    first = simulate(*fleet_scenario("  duration: 2s\n  members: 2\n"))
    elephant, second, mouse = first.tenants
    tenants = (
        replace(elephant, seats=elephant.seats * 1.1),
        replace(second, seats=second.seats * 0.8),
        replace(mouse, seats=mouse.seats * 1.15),
    )
    changed = replace(first, tenants=tenants)

    assert largest_deviation(changed, first) == ("second", 0.2)
    idle = replace(first, tenants=(elephant, replace(second, seats=0.01), mouse))
    assert largest_deviation(changed, idle)[0] == "mouse"
    assert largest_deviation(first, replace(first, tenants=())) == ("", 0.0)
