"""Scenarios: the clients of simulated servers, as frozen objects and as YAML.

They are part of the configuration, because no other package reads YAML. `apf_middleware.simulation` plays them.
"""

from apf_middleware.config.scenario.arrivals import (
    AnyArrivals,
    BurstArrivals,
    CalledArrivals,
    ClosedArrivals,
    PoissonArrivals,
    ReplayedArrivals,
    SteadyArrivals,
)
from apf_middleware.config.scenario.durations import (
    AnyDuration,
    ConstantDuration,
    ExponentialDuration,
    LognormalDuration,
    MixedDuration,
    ParetoDuration,
    UniformDuration,
    WeightedDuration,
)
from apf_middleware.config.scenario.members import FleetEvent, ScenarioMembers
from apf_middleware.config.scenario.objects import Backend, Retries, Scenario, Tenant, TenantRequest, WeightedSeats
from apf_middleware.config.scenario.read import ScenarioReading, load_scenario, read_scenario, read_scenario_text

__all__ = [
    "AnyArrivals",
    "AnyDuration",
    "Backend",
    "BurstArrivals",
    "CalledArrivals",
    "ClosedArrivals",
    "ConstantDuration",
    "ExponentialDuration",
    "FleetEvent",
    "LognormalDuration",
    "MixedDuration",
    "ParetoDuration",
    "PoissonArrivals",
    "ReplayedArrivals",
    "Retries",
    "Scenario",
    "ScenarioMembers",
    "ScenarioReading",
    "SteadyArrivals",
    "Tenant",
    "TenantRequest",
    "UniformDuration",
    "WeightedDuration",
    "WeightedSeats",
    "load_scenario",
    "read_scenario",
    "read_scenario_text",
]
