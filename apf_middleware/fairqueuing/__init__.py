"""The algorithm of API Priority and Fairness: fair queues, seats, and how a server's seats are shared out.

Nothing here uses a clock, an event loop, a request or a file. Time is an argument, in integer nanoseconds; the result
of a call says what must happen next.
"""

from apf_middleware.fairqueuing.disciplines import (
    DISCIPLINES,
    Discipline,
    EqualSerial,
    MaxMinConcurrent,
    MaxMinSerial,
    UpstreamEqualSerial,
)
from apf_middleware.fairqueuing.queueset import QueueSet
from apf_middleware.fairqueuing.queueset_settings import QueueSetSettings
from apf_middleware.fairqueuing.sharing import (
    Adjusting,
    Lending,
    LevelRecord,
    SharedLevel,
    Sharing,
)
from apf_middleware.fairqueuing.sharing.limits import LevelLimits, LevelShares, limits_from_shares
from apf_middleware.fairqueuing.shuffle import Dealer, collision_probabilities, entropy_bits, flow_hash
from apf_middleware.fairqueuing.ticket import Reason, Ticket, TicketState
from apf_middleware.fairqueuing.work import Work, duration_per_seat, format_seat_seconds, seat_seconds

__all__ = [
    "DISCIPLINES",
    "Adjusting",
    "Dealer",
    "Discipline",
    "EqualSerial",
    "Lending",
    "LevelLimits",
    "LevelRecord",
    "LevelShares",
    "MaxMinConcurrent",
    "MaxMinSerial",
    "QueueSet",
    "QueueSetSettings",
    "Reason",
    "SharedLevel",
    "Sharing",
    "Ticket",
    "TicketState",
    "UpstreamEqualSerial",
    "Work",
    "collision_probabilities",
    "duration_per_seat",
    "entropy_bits",
    "flow_hash",
    "format_seat_seconds",
    "limits_from_shares",
    "seat_seconds",
]
