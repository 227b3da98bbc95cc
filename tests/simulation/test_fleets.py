"""Fleets in virtual time, with the code of production: fair as one big server, and never more than the budget."""

from dataclasses import replace
from pathlib import Path

import pytest

from apf_middleware.config.adaptive_seats import SeatBounds
from apf_middleware.config.scenario import load_scenario, read_scenario_text
from apf_middleware.simulation import Result, simulate
from apf_middleware.simulation.fleet import LAYOUTS, layout
from apf_middleware.simulation.fleet.comparison import compare_layouts
from benchmarks.fleet_scale import Balancing, measure
from tests.support.fleet_scenarios import fleet_scenario
from tests.support.simulated_worlds import seats_over_time
from tests.support.wide_worlds import WideWorld

ADAPTIVE = Path(__file__).parents[2] / "examples" / "scenarios" / "adaptive" / "fleet.yaml"
EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "fleets" / "one-budget.yaml"
SECOND = 10**9


@pytest.mark.parametrize(
    ("members", "balancing", "most"),
    [
        (1, "random", 0.02),
        (1, "sticky", 0.02),
        (10, "random", 0.05),
        (10, "round-robin", 0.05),
        (10, "least-requests", 0.05),
        (10, "sticky", 0.05),
    ],
)
def test_a_fleet_is_nearly_one_big_server(members: int, balancing: Balancing, most: float) -> None:
    """Ten members with two seats each are the hardest: each of their shares is a fraction of a seat."""
    row = measure(members, balancing, seconds=6)

    assert row["most_in_use"] == row["seats"]
    assert row["utilisation"] >= 0.95
    assert row["deviation"] <= most


def test_a_hundred_members_are_nearly_one_big_server() -> None:
    row = measure(100, seconds=1.5)

    assert row["most_in_use"] == row["seats"] == 200
    assert row["utilisation"] >= 0.95
    assert row["deviation"] <= 0.05


def test_a_flow_with_short_queues_has_its_share_from_the_first_intervals_on() -> None:
    """Its queues take the weights of a grant with the next request, as those of a flow with long queues must."""
    closed = "{type: closed, connections: %s}, service: {type: uniform, least: 200ms, most: 600ms}"
    tenants = f"  - {{name: long, count: 2, arrivals: {closed % 160}}}\n  - {{name: short, arrivals: {closed % 80}}}\n"
    spec = "  duration: 5s\n  warmUp: 2s\n  members: {count: 40}\n"
    result = simulate(*fleet_scenario(spec, seats=80, fleet="name: shop, interval: 1s", tenants=tenants))

    assert result.tenant("short").seats == pytest.approx(80 / 3, rel=0.08)
    assert result.tenant("long").seats == pytest.approx(160 / 3, rel=0.08)


@pytest.mark.parametrize(
    ("seats", "members", "width", "clients", "fleet"),
    [
        (8, 4, 6, 6, "name: shop"),
        (12, 3, 7, 1, "name: shop, fallback: {members: 3, share: 0.5}"),
        (12, 3, 10, 1, "name: shop, fallback: {members: 3, share: 0.5}"),
        (40, 10, 6, 6, "name: shop"),
    ],
)
def test_wide_requests_starve_no_member_and_use_the_seats(
    seats: int, members: int, width: int, clients: int, fleet: str
) -> None:
    """Each request needs more than its member's part; with fallback seats perhaps more than a member can have."""
    closed = f"count: {clients}, service: 40ms, arrivals: {{type: closed, connections: "
    tenants = f"  - {{name: narrow, {closed}30}}}}\n  - {{name: wide, seats: {width}, {closed}3}}}}\n"
    spec = f"  duration: 8s\n  warmUp: 2s\n  members: {members}\n"
    scenario, configuration = fleet_scenario(spec, seats=seats, fleet=fleet, tenants=tenants)
    server = configuration.server
    uncut = replace(configuration, server=replace(server, estimation=replace(server.estimation, cap=False)))
    result = simulate(scenario, uncut)

    assert result.fleet is not None
    used = [member.seats for member in result.fleet.members]
    assert sum(used) >= 0.8 * seats
    assert min(used) >= 0.5 * max(used)
    assert result.tenant("wide").seats >= 0.2 * seats


@pytest.mark.parametrize(
    "world",
    [
        # A narrow flow, and one whose requests need the whole max of the level that they have in common.
        WideWorld(40, 2, "sticky", {"a": "maxSeats: 4"}, {"wide": ("a", 4, 2), "narrow": ("a", 1, 10)}),
        # The max of a parent, and a sibling, whose requests fit in what the wide ones are given less.
        WideWorld(
            14,
            2,
            "sticky",
            {
                "a": "shares: 2, minSeats: 1, parent: parent, maxSeats: 3",
                "b": "shares: 1, parent: parent, maxSeats: 2",
                "c": "shares: 2, maxSeats: 3",
            },
            {"narrow": ("a", 1, 2), "wide": ("a", 3, 30), "sibling": ("b", 2, 30), "busy": ("c", 1, 5)},
        ),
        # While requests wait for their part of a max, those of another level have the turns.
        WideWorld(
            4,
            4,
            "round-robin",
            {"a": "shares: 6, maxSeats: 2", "b": "shares: 1"},
            {"wide": ("a", 2, 5), "one": ("b", 2, 30), "other": ("b", 2, 30)},
        ),
    ],
    ids=["level", "parent", "other-level"],
)
def test_requests_that_need_a_whole_max_starve_nobody_and_are_not_starved(world: WideWorld) -> None:
    given = world.read()
    alone, fleet = (simulate(*layout(name, *given)) for name in ("one-server", "fleet"))

    for tenant in alone.tenants:
        assert fleet.tenant(tenant.name).seats >= 0.6 * tenant.seats


def test_one_member_is_one_server_except_at_its_start() -> None:
    """Below its capacity, a server forgets its start as soon as it has been idle once."""
    tenants = """\
  - {name: a, arrivals: {type: poisson, rate: 150}, service: {type: exponential, mean: 40ms}}
  - {name: b, arrivals: {type: bursts, rate: 200, on: 1s, off: 1s}, service: {type: exponential, mean: 40ms}}
"""
    given = fleet_scenario("  duration: 30s\n  warmUp: 5s\n  members: 1\n", tenants=tenants)
    alone, fleet = (simulate(*layout(name, *given)) for name in ("one-server", "fleet"))

    assert alone.requests > 5_000
    assert fleet.requests == alone.requests
    for one, other in zip(fleet.tenants, alone.tenants, strict=True):
        assert one.served == other.served
        assert one.seats == pytest.approx(other.seats, rel=0.002)
        assert one.mean_ms == pytest.approx(other.mean_ms, rel=0.02)
    assert fleet.level("all").seats == pytest.approx(alone.level("all").seats, rel=0.002)


def test_shares_converge_within_five_intervals_after_a_change() -> None:
    """A second flow begins, at other members than the first: after five intervals both have their fair shares."""
    tenants = """\
  - {name: first, arrivals: {type: closed, connections: 100}, service: 10ms}
  - {name: second, begin: 5s, arrivals: {type: closed, connections: 100}, service: 10ms}
"""
    spec = "  duration: 8s\n  warmUp: 6250ms\n  members: 8\n  balancing: sticky\n"
    result = simulate(*fleet_scenario(spec, tenants=tenants))
    first, second = result.tenants

    assert first.seats == pytest.approx(10, rel=0.05)
    assert second.seats == pytest.approx(10, rel=0.05)
    assert result.fleet is not None
    assert sorted(member.seats > 1 for member in result.fleet.members) == [*[False] * 6, True, True]


@pytest.mark.parametrize("store", ["name: shop", 'store: "redis://r/0", lease: 2s'])
def test_no_failure_makes_a_fleet_exceed_its_budget(store: str) -> None:
    events = """[{type: crash, at: 3s, duration: 1s, members: [0, 4]}, {type: allocator-crash, at: 5s},
      {type: partition, at: 6s, duration: 1s, members: [1]}, {type: allocator-crash, at: 6500ms}]"""
    spec = f"  duration: 12s\n  warmUp: 1s\n  members: {{count: 6, loss: 0.02, events: {events}}}\n"
    result = simulate(*fleet_scenario(spec, fleet=store))

    assert result.fleet is not None
    assert result.fleet.epochs == 3
    assert result.fleet.lost > 10
    assert result.fleet.most_in_use == 20
    assert result.fleet.excess_seat_s == 0
    assert min(seats_over_time(result)[-4:]) > 19, "it has recovered"


def test_requests_that_outlive_a_lease_are_counted_as_excess() -> None:
    tenants = "  - {name: slow, arrivals: {type: closed, connections: 60}, service: 4s}\n"
    events = "[{type: partition, at: 2s, duration: 6s, members: [0, 1]}]"
    spec = f"  duration: 10s\n  members: {{count: 4, events: {events}}}\n"
    result = simulate(*fleet_scenario(spec, fleet="name: shop, interval: 200ms, lease: 1s", tenants=tenants))

    assert result.fleet is not None
    assert 20 < result.fleet.most_in_use <= 30, "at most the last grants of the two members"
    assert result.fleet.excess_seat_s > 0


def test_the_example_shows_why_seats_should_be_shared() -> None:
    scenario, configuration = load_scenario(EXAMPLE)
    short = replace(scenario, duration_ns=6 * SECOND)
    one, split, fleet = compare_layouts(
        [simulate(*layout(name, short, configuration), name=name) for name in LAYOUTS],
    )

    assert one.goodput > 0.98
    assert split.goodput < 0.55
    assert split.deviation > 0.5
    assert fleet.goodput > 0.97
    assert fleet.deviation < 0.05
    assert fleet.most_in_use == 20


def adaptive_fleet(*changes: tuple[str, str], seconds: int) -> Result:
    """Run the example for some ``seconds``, with changes of its text."""
    text = ADAPTIVE.read_text().replace("60s", f"{seconds}s")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return simulate(*read_scenario_text(text).unwrap())


def totals(result: Result, begin: float, end: float) -> list[int]:
    """Return the total of seats in this part of the time."""
    length = len(result.windows)
    found = [window.total for window in result.windows[int(begin * length) : int(end * length)]]
    return [one for one in found if one is not None]


def test_a_fleet_finds_the_capacity_of_the_backend_that_it_shares_and_the_next_allocator_knows_it() -> None:
    """Ten controllers would each see the effects of the others' tries."""
    crash = ("  members: 10\n", "  members: {count: 10, events: [{at: 12s, type: allocator-crash}]}\n")
    found = adaptive_fleet(crash, seconds=18)
    before, after = totals(found, 0.27, 0.65), totals(found, 0.69, 1.0)
    usual = sum(before) / len(before)

    assert 32 <= usual <= 60
    assert min(after) >= 0.5 * usual, "a new controller tries smaller totals, but begins with this one"
    assert found.tenant("customers").served > 0.95 * found.tenant("customers").requests, "of 8 s from the start on"
    assert found.fairness is not None
    assert found.fairness > 0.99
    assert found.fleet is not None
    assert found.fleet.epochs == 2
    assert found.fleet.most_in_use <= max(totals(found, 0.0, 1.0)) <= found.fleet.budget == 400


def test_a_split_of_adaptive_seats_adapts_in_each_part() -> None:
    scenario, configuration = read_scenario_text(ADAPTIVE.read_text()).unwrap()
    _, split = layout("split", scenario, configuration)

    assert split.server.seat_bounds == SeatBounds(1, 40)
    assert split.server.fleet is None
