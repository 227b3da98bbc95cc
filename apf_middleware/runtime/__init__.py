"""Time and waiting: levels on an event loop."""

from apf_middleware.runtime.admission import Admission, Destination
from apf_middleware.runtime.connection_polls import Connection
from apf_middleware.runtime.controller import SETTLED_AT_START, Controller
from apf_middleware.runtime.incoming_bodies import IncomingBodies, IncomingBody
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.log import RejectionLog, log_event
from apf_middleware.runtime.named_queues import NamedQueues
from apf_middleware.runtime.open_streams import OpenStreams
from apf_middleware.runtime.queues import QueueNaming, UnknownQueue
from apf_middleware.runtime.reading import read_server
from apf_middleware.runtime.retry_after import DrainMeter, expected_wait_s, jittered_s, retry_after_s
from apf_middleware.runtime.revocation import Revocation
from apf_middleware.runtime.waiting import wait_for_seat

__all__ = [
    "SETTLED_AT_START",
    "Admission",
    "Connection",
    "Controller",
    "Destination",
    "DrainMeter",
    "IncomingBodies",
    "IncomingBody",
    "LevelRuntime",
    "NamedQueues",
    "OpenStreams",
    "QueueNaming",
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
