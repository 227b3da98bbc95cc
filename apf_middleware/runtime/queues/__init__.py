"""Named queues of a live server: what they are doing, and how they are operated while requests come and go.

A named queue *is* a priority level. The book of queues is what a command line, an admin app or a program holds on to.
"""

from apf_middleware.runtime.queues.live import Drift, LiveChanges
from apf_middleware.runtime.queues.named_queues import NamedQueues
from apf_middleware.runtime.queues.naming import QueueNaming, UnknownQueue
from apf_middleware.runtime.queues.states import QueueAction, QueueState

__all__ = [
    "Drift",
    "LiveChanges",
    "NamedQueues",
    "QueueAction",
    "QueueNaming",
    "QueueState",
    "UnknownQueue",
]
