"""Scenarios: who comes before a server, how often and for how long, as plain objects and as YAML.

They stand here, beside the configuration that they try out, because only this room knows YAML; what becomes of them is
`apf_middleware.simulation`'s.
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
)
from apf_middleware.config.scenario.objects import Backend, Retries, Scenario, Tenant, Widths
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
    "LognormalDuration",
    "MixedDuration",
    "ParetoDuration",
    "PoissonArrivals",
    "ReplayedArrivals",
    "Retries",
    "Scenario",
    "ScenarioReading",
    "SteadyArrivals",
    "Tenant",
    "UniformDuration",
    "Widths",
    "load_scenario",
    "read_scenario",
    "read_scenario_text",
]
