"""Log records, with a stable name for each event and its facts as fields.

The message contains the name and the fields, for people; the record's ``event`` and ``apf`` contain them for programs.
The logger is ``apf_middleware``; the application decides where its records go.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.alarm import Alarm

if TYPE_CHECKING:
    from apf_middleware.fairqueuing import Reason
    from apf_middleware.metrics.schema_counters import SchemaCounters

__all__ = ["LOG", "RejectionLog", "log_event"]

LOG: Final = logging.getLogger("apf_middleware")

_SUMMARY_NS: Final = 10 * 10**9


def log_event(severity: int, event: str, /, **fields: object) -> None:
    """Log one event with its fields."""
    written = " ".join(f"{name}={value}" for name, value in fields.items())
    LOG.log(severity, "%s %s", event, written, extra={"event": event, "apf": fields})


class RejectionLog:
    """Log the numbers of rejections, ten seconds after the first one; at the level DEBUG, log each rejection, too.

    An overloaded server rejects many requests, and has little time to log each of them.
    """

    __slots__ = ("_alarm", "_counts", "_now")

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._counts: dict[tuple[SchemaCounters, Reason | None], int] = {}
        self._alarm = Alarm(self.summarize, now)

    def note(self, admission: Admission) -> None:
        """Count a rejected request."""
        counts, key = self._counts, (admission.destination.counters, admission.reason)
        if not counts:
            self._alarm.ask(self._now() + _SUMMARY_NS)
        counts[key] = counts.get(key, 0) + 1
        if LOG.isEnabledFor(logging.DEBUG):
            log_event(
                logging.DEBUG,
                "apf.rejected",
                level=admission.level,
                schema=admission.schema,
                reason=str(admission.reason),
                waited=round(admission.waited, 3),
            )

    def summarize(self) -> None:
        """Log what has been counted since the last summary."""
        counted, self._counts = self._counts, {}
        self._alarm.cancel()
        counts: Counter[tuple[str, str, str]] = Counter()
        for (of_schema, why), number in counted.items():  # reads and writes are counted apart, but logged together
            counts[of_schema.level, of_schema.schema, str(why)] += number
        for (level, schema, reason), count in sorted(counts.items()):
            log_event(logging.WARNING, "apf.rejections", level=level, schema=schema, reason=reason, count=count)
