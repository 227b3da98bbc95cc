"""Random fleets in virtual time, with the code of production: the budget holds, and every request ends."""

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.config.scenario import PoissonArrivals
from apf_middleware.simulation.run import Simulation
from tests.support.examples import examples
from tests.support.fleet_scenarios import fleet_scenario

SECOND = 10**9
LEASE_MS = 1_000
LONGEST_MS = 500
"""No failure lasts as long as a lease, and the next one begins when the fleet has recovered."""


@st.composite
def events(draw: st.DrawFn, members: int) -> str:
    """Return crashes, partitions, and crashes of the allocator."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["crash", "partition", "allocator-crash"]))
        at_ms = number * 2 * LONGEST_MS + draw(st.integers(0, LONGEST_MS))
        text = f"type: {kind}, at: {at_ms}ms, duration: {draw(st.integers(1, LONGEST_MS))}ms"
        if kind != "allocator-crash":
            numbers = draw(st.sets(st.integers(0, members - 1), min_size=1, max_size=3))
            text += f", members: {sorted(numbers)}"
        found.append(f"{{{text}}}")
    return f"[{', '.join(found)}]"


@st.composite
def tenants_of(draw: st.DrawFn) -> str:
    """Return the clients of a tenant, which stop before the end."""
    arrivals = f"arrivals: {{type: poisson, rate: {draw(st.integers(1, 40))}}}"
    service = "service: {type: uniform, least: 1ms, most: 200ms}"
    end = f"end: {draw(st.integers(1_000, 4_500))}ms"
    return f"count: {draw(st.integers(1, 3))}, seats: {draw(st.integers(1, 2))}, {arrivals}, {service}, {end}"


@st.composite
def worlds(draw: st.DrawFn, *, limited: bool = False) -> Simulation:
    """Return a fleet with random members, flows, messages and failures; its level may be ``limited`` by a max."""
    members = draw(st.integers(1, 8))
    loss = draw(st.sampled_from([0, 0.01, 0.05]))
    delay = draw(st.sampled_from(["100us", "{type: uniform, least: 0s, most: 5ms}", "{type: exponential, mean: 3ms}"]))
    store = draw(st.sampled_from(["name: shop", 'store: "redis://r/0"']))
    balancing = draw(st.sampled_from(["random", "round-robin", "least-requests", "sticky"]))
    seats = draw(st.integers(2, 30))
    max_seats = draw(st.integers(2, seats)) if limited else None
    # Without leases, nobody divides the max.
    fallback = draw(st.sampled_from(["", "" if limited else f", fallback: {{members: {members}, share: 0.5}}"]))
    spec = f"""\
  duration: 5s
  seed: {draw(st.integers(0, 1_000))}
  balancing: {balancing}
  members: {{count: {members}, loss: {loss}, delay: {delay}, events: {draw(events(members))}}}
"""
    tenants = "".join(f"  - {{name: t{number}, {draw(tenants_of())}}}\n" for number in range(draw(st.integers(1, 4))))
    fleet = f"{store}, interval: 100ms, lease: {LEASE_MS}ms{fallback}"
    return Simulation(*fleet_scenario(spec, seats=seats, max_seats=max_seats, fleet=fleet, tenants=tenants))


@examples(25)
@given(worlds())
def test_the_budget_holds_and_every_request_ends(simulation: Simulation) -> None:
    result = simulation.run("own")

    assert result.fleet is not None
    assert result.fleet.most_in_use <= result.fleet.budget
    assert result.fleet.excess_seat_s == 0
    meters = simulation.fleet_meters
    assert meters is not None
    # The backend counts the seats that a request asks for, of which its level may give it fewer.
    assert meters.in_use <= simulation.servers[0].backend.load
    if all(tenant.widths[0].seats == 1 for tenant in simulation.scenario.tenants):
        assert meters.in_use == simulation.servers[0].backend.load
    if demand_seat_s(simulation) <= 8 * result.fleet.budget:  # after its 5 seconds, the simulation waits for 10 more
        assert result.requests == sum(tenant.served + tenant.failed for tenant in result.tenants)


@examples(25)
@given(worlds(limited=True))
def test_the_max_of_a_level_holds(simulation: Simulation) -> None:
    most = simulation.servers[0].controller.configuration.levels["all"].max_seats
    assert most is not None
    result = simulation.run("own")

    assert result.fleet is not None
    assert result.fleet.most_in_use <= most
    if demand_seat_s(simulation) <= 6 * most:
        assert result.requests == sum(tenant.served + tenant.failed for tenant in result.tenants)


def demand_seat_s(simulation: Simulation) -> float:
    """Return the work that all tenants are expected to ask for."""
    return sum(
        tenant.count
        * tenant.arrivals.rate
        * tenant.service.mean_ns
        / SECOND
        * tenant.widths[0].seats
        * ((tenant.end_ns or 0) / SECOND)
        for tenant in simulation.scenario.tenants
        if isinstance(tenant.arrivals, PoissonArrivals)
    )
