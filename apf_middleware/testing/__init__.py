"""For tests: virtual time around the algorithm, scenarios and what they come to, and replay of recorded traces."""

from apf_middleware.testing.fairness import jain_index, max_min_fair
from apf_middleware.testing.gap import ServiceGap
from apf_middleware.testing.replay import Difference, Replay, replay
from apf_middleware.testing.scenario import Client, Outcome, Scenario, play
from apf_middleware.testing.trace import Trace
from apf_middleware.testing.trace import load as load_trace
from apf_middleware.testing.world import Call, Rank, World

__all__ = [
    "Call",
    "Client",
    "Difference",
    "Outcome",
    "Rank",
    "Replay",
    "Scenario",
    "ServiceGap",
    "Trace",
    "World",
    "jain_index",
    "load_trace",
    "max_min_fair",
    "play",
    "replay",
]
