"""The deadline and the criticality of the request that is being served, for the requests that it causes."""

from contextvars import ContextVar
from typing import Final

from apf_middleware.criticality import Criticality

__all__ = ["CURRENT_CRITICALITY", "CURRENT_DEADLINE"]

CURRENT_DEADLINE: Final[ContextVar[int | None]] = ContextVar("apf_deadline", default=None)
"""The deadline on the monotonic clock, in nanoseconds; None if there is none.

Tasks and threads that the request begins through its event loop have it, too; others have none.
"""

CURRENT_CRITICALITY: Final[ContextVar[Criticality | None]] = ContextVar("apf_criticality", default=None)
"""The criticality; None if the server knows none."""
