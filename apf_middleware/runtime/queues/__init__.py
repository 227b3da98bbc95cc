"""The parts of named queues: states, status, changes that a reload keeps, and the names that requests may give.

A named queue *is* a priority level. `runtime.named_queues.NamedQueues` operates it.
"""

from apf_middleware.runtime.queues.live import Drift
from apf_middleware.runtime.queues.naming import QueueNaming, UnknownQueue
from apf_middleware.runtime.queues.states import QueueAction

__all__ = [
    "Drift",
    "QueueAction",
    "QueueNaming",
    "UnknownQueue",
]
