"""The budget of a fleet has the claims of the configuration's levels."""

from dataclasses import replace

from apf_middleware.config import load_text
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.runtime.fleet.budget import derive_budget

CONFIGURATION = """
apiVersion: apf/v1
kind: Server
spec: {seats: 20, defaults: none, fleet: {}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {shares: 30, minSeats: 4, maxSeats: 12, priority: 3}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: batch}
spec: {shares: 10}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all}
spec: {level: web, rules: [{httpRules: [{}]}]}
"""


def test_claims_are_the_limits_of_the_whole_fleet() -> None:
    budget = derive_budget(load_text(CONFIGURATION))

    assert budget.seats == 20
    assert budget.claims["web"] == SeatDemand(30, 0, 4, 12)
    assert budget.claims["batch"].most is None
    assert budget.priorities["web"] == 3


def test_the_floor_follows_from_the_smallest_number_of_seats() -> None:
    fixed = CONFIGURATION.replace("fleet: {}", "fleet: {fallback: {members: 5, share: 0.5}}")
    assert derive_budget(load_text(fixed)).floor == 2
    adaptive = fixed.replace("seats: 20", "seats: {adaptive: {min: 10, max: 20}}")
    assert derive_budget(load_text(adaptive), 20).floor == 1
    assert derive_budget(load_text(CONFIGURATION)).floor == 0


def test_a_configured_max_is_claimed_also_while_there_are_no_more_seats() -> None:
    """As soon as the total has grown, the max is divided among the members."""
    adaptive = load_text(CONFIGURATION.replace("seats: 20", "seats: {adaptive: {min: 10, max: 20}}"))
    budget = derive_budget(adaptive, 10)
    assert (budget.claims["web"].most, budget.claims["batch"].most) == (12, None)
    assert budget.maxes == {}
    assert replace(budget, seats=13).maxes == {"web": 12}


def test_exempt_levels_have_no_claim() -> None:
    configuration = load_text(CONFIGURATION)

    assert "exempt" in configuration.levels
    assert "exempt" not in derive_budget(configuration).claims
