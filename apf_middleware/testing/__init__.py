"""For tests: virtual time around the algorithm, and replay of recorded traces."""

from apf_middleware.testing.replay import Difference, Replay, replay
from apf_middleware.testing.trace import Trace
from apf_middleware.testing.trace import load as load_trace
from apf_middleware.testing.world import Call, Rank, World

__all__ = ["Call", "Difference", "Rank", "Replay", "Trace", "World", "load_trace", "replay"]
