"""Why a controller left the total of seats as it was, or changed it."""

from enum import StrEnum

__all__ = ["LimitReason"]


class LimitReason(StrEnum):
    """The reasons, as metrics and logs call them."""

    START = "start"
    UNUSED = "held-unused"
    SAMPLES = "held-samples"
    FAILURES = "held-failures"
    MEASURED = "held-measured"
    """The duration of requests with this total is known now; other totals are tried next."""
    BOUND = "held-bound"
    TRY_UP = "try-up"
    TRY_DOWN = "try-down"
    GREW = "grew"
    NO_GAIN = "held-no-gain"
    """More seats only made requests slower."""
    SHRANK = "shrank"
    NEEDED = "held-needed"
    """Fewer seats didn't make requests faster."""
    SLOWER = "cut-slower"
    REFUSED = "cut-refused"
    TIMED_OUT = "cut-timed-out"
    LAG = "cut-lag"
