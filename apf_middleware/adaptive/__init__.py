"""Seats that follow what the server can do at once: the total, and those of elastic levels.

Pure: time is an argument; no I/O, clock, logging.
"""

from apf_middleware.adaptive.adaptive_total import AdaptiveTotal
from apf_middleware.adaptive.elastic_cap import ElasticCap
from apf_middleware.adaptive.elastic_control import ElasticControl
from apf_middleware.adaptive.elastic_reason import ElasticReason
from apf_middleware.adaptive.lag_window import LagWindow
from apf_middleware.adaptive.limit_reason import LimitReason
from apf_middleware.adaptive.request_outcome import RequestOutcome, outcome_of
from apf_middleware.adaptive.seat_use import SeatUse
from apf_middleware.adaptive.settings import MOST_TOTAL, AdaptiveSettings

__all__ = [
    "MOST_TOTAL",
    "AdaptiveSettings",
    "AdaptiveTotal",
    "ElasticCap",
    "ElasticControl",
    "ElasticReason",
    "LagWindow",
    "LimitReason",
    "RequestOutcome",
    "SeatUse",
    "outcome_of",
]
