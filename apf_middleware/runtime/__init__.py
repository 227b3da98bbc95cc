"""Time and waiting: levels on an event loop."""

from apf_middleware.runtime.admission import Admission, Destination
from apf_middleware.runtime.connection_polls import Connection
from apf_middleware.runtime.controller import SETTLED_AT_START, Controller
from apf_middleware.runtime.deadlines import Deadlines
from apf_middleware.runtime.incoming_bodies import IncomingBodies, IncomingBody
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.log import RejectionLog, log_event
from apf_middleware.runtime.named_queues import NamedQueues
from apf_middleware.runtime.open_streams import OpenStreams
from apf_middleware.runtime.queues import QueueAction, QueueNaming, QueueState, UnknownQueue
from apf_middleware.runtime.reading import read_server
from apf_middleware.runtime.retry_after import DrainMeter, expected_wait_s, jittered_s, retry_after_s
from apf_middleware.runtime.revocation import Revocation
from apf_middleware.runtime.waiting import ClientWatch, wait_for_seat

__all__ = [
    "SETTLED_AT_START",
    "Admission",
    "ClientWatch",
    "Connection",
    "Controller",
    "Deadlines",
    "Destination",
    "DrainMeter",
    "IncomingBodies",
    "IncomingBody",
    "LevelRuntime",
    "NamedQueues",
    "OpenStreams",
    "QueueAction",
    "QueueNaming",
    "QueueState",
    "RejectionLog",
    "Revocation",
    "UnknownQueue",
    "expected_wait_s",
    "jittered_s",
    "log_event",
    "read_server",
    "retry_after_s",
    "wait_for_seat",
]
