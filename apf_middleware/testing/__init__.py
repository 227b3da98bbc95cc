"""Tools for tests: what a configuration makes of a request, the algorithm in virtual time, fairness, traces."""

from apf_middleware.runtime.described_request import DescribedRequest, explain_request
from apf_middleware.simulation.fairness import jain_index, max_min_fair
from apf_middleware.testing.replay import Difference, Replay, replay
from apf_middleware.testing.scenario import Client, FairnessScenario, Outcome, play
from apf_middleware.testing.service_gap import ServiceGap
from apf_middleware.testing.shortfall import Finding, Shortfall
from apf_middleware.testing.trace import Trace
from apf_middleware.testing.trace import load as load_trace
from apf_middleware.testing.varying_load import Caller, Observation, observe
from apf_middleware.testing.virtual_time import Call, Rank, World

__all__ = [
    "Call",
    "Caller",
    "Client",
    "DescribedRequest",
    "Difference",
    "FairnessScenario",
    "Finding",
    "Observation",
    "Outcome",
    "Rank",
    "Replay",
    "ServiceGap",
    "Shortfall",
    "Trace",
    "World",
    "explain_request",
    "jain_index",
    "load_trace",
    "max_min_fair",
    "observe",
    "play",
    "replay",
]
