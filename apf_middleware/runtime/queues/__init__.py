"""Named queues of a live server: their status, and how they are operated while requests come and go.

A named queue *is* a priority level. `NamedQueues` is the interface for the command line, the admin and programs.
"""

from apf_middleware.runtime.queues.live import Drift, LiveChanges
from apf_middleware.runtime.queues.named_queues import NamedQueues
from apf_middleware.runtime.queues.naming import QueueNaming, UnknownQueue
from apf_middleware.runtime.queues.states import QueueAction
from apf_middleware.snapshots import QueueState

__all__ = [
    "Drift",
    "LiveChanges",
    "NamedQueues",
    "QueueAction",
    "QueueNaming",
    "QueueState",
    "UnknownQueue",
]
