"""Log records, with a stable name for each event and its facts as fields.

The message contains the name and the fields, for people; the record's ``event`` and ``apf`` contain them for programs.
The logger is ``apf_middleware``; the application decides where its records go.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.alarm import Alarm

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
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._alarm = Alarm(self.summarize, now)

    def note(self, admission: Admission) -> None:
        """Count a rejected request."""
        if not self._counts:
            self._alarm.ask(self._now() + _SUMMARY_NS)
        self._counts[admission.level, admission.schema, str(admission.reason)] += 1
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
        counts, self._counts = self._counts, Counter()
        self._alarm.cancel()
        for (level, schema, reason), count in sorted(counts.items()):
            log_event(logging.WARNING, "apf.rejections", level=level, schema=schema, reason=reason, count=count)
