"""Under overload, customers get seats in proportion to the weights of their plans; idle weights are no one's loss."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from apf_middleware.config import Configuration, load
from apf_middleware.config.scenario import Scenario, read_scenario_text
from apf_middleware.simulation import simulate

PLANS = Path(__file__).parents[2] / "examples" / "config" / "plans.yaml"
PLAYED = """
apiVersion: apf/v1
kind: Scenario
spec:
  duration: 40s
  warmUp: 10s
  backend: {places: 20, exponent: 0}
  tenants:
"""
TENANT = """\
  - name: {name}
    count: {count}
    user: "{user}"
    groups: [system:authenticated{groups}]
    arrivals: {{type: closed, connections: {connections}}}
    service: {{type: exponential, mean: 50ms}}
    timeout: 60s
"""


def tenant(name: str, *groups: str, user: str = "", count: int = 2, connections: int = 25) -> str:
    listed = "".join(f", '{group}'" for group in groups)
    return TENANT.format(name=name, user=user or f"{name}-{{n}}", groups=listed, count=count, connections=connections)


def played(*tenants: str) -> Scenario:
    """Return the scenario of these tenants, for any configuration."""
    server = "---\napiVersion: apf/v1\nkind: Server\nspec: {seats: 20}\n"
    return read_scenario_text(PLAYED + "".join(tenants) + server).unwrap()[0]


def seats(scenario: Scenario, configuration: Configuration) -> Mapping[str, float]:
    """Return the seats that each customer of a plan has on average."""
    result = simulate(scenario, configuration)
    counts = {one.name: one.count for one in scenario.tenants}
    return {one.name: one.seats / counts[one.name] for one in result.tenants}


GOLD = tenant("gold", "plan:gold")
SILVER = tenant("silver", "plan:silver")
FREE = tenant("free", "plan:free")
JOBS = tenant("job", user="migration-{n}")


def test_seats_are_in_proportion_to_the_weights_of_plans_and_names() -> None:
    found = seats(played(GOLD, SILVER, FREE, JOBS), load(PLANS))

    unit = 20 / 2 / (4 + 2 + 1 + 0.25)
    assert found == pytest.approx({"gold": 4 * unit, "silver": 2 * unit, "free": unit, "job": unit / 4}, rel=0.05)


def test_seats_that_the_heavy_do_not_need_go_to_the_others_by_weight() -> None:
    found = seats(played(tenant("gold", "plan:gold", connections=1), SILVER, FREE), load(PLANS))

    assert found["gold"] > 0.85, "one connection each, which hardly waits"
    rest = 20 / 2 - found["gold"]
    assert found["silver"] == pytest.approx(rest * 2 / 3, rel=0.05)
    assert found["free"] == pytest.approx(rest / 3, rel=0.05)


def test_without_weights_all_customers_are_equal(tmp_path: Path) -> None:
    text = PLANS.read_text()
    plain = tmp_path / "plain.yaml"
    plain.write_text("\n".join(line for line in text.splitlines() if "eights:" not in line))

    found = seats(played(GOLD, SILVER, FREE, JOBS), load(plain))

    assert found == pytest.approx(dict.fromkeys(found, 20 / 8), rel=0.05)
