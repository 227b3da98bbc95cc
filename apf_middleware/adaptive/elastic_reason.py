"""Why the cap of an elastic level is as it is."""

from enum import StrEnum

__all__ = ["ElasticReason"]


class ElasticReason(StrEnum):
    """The reasons, as metrics and logs call them."""

    OPEN = "open"
    """There is no cap: the event loop is in time, or has not been late for long."""
    CUT = "cut-lag"
    FLOOR = "held-floor"
    """The event loop is late, and the level has no more than its min, or one seat."""
    GREW = "grew"
