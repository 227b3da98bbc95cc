"""Settings of what balancers learn: the ``loadReports`` and the ``readiness`` of a Server document."""

from collections.abc import Iterator
from typing import Final

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import SERVED_PATH, Nanoseconds, NonEmpty, TextSet, is_served_path
from apf_middleware.frozen import frozen
from apf_middleware.load_reports.report import ReportFormat

__all__ = ["LoadReportSettings", "ReadinessSettings"]

_SECOND: Final = 10**9


@frozen
class LoadReportSettings(Settings):
    """Load reports in the ``header`` of each response, and at a ``path``.

    Trusted proxies get the header, and all clients if it is ``for_everybody``. An empty path means none.
    """

    header: ReportFormat | None = "binary"
    for_everybody: bool = False
    path: str = ""

    def rules(self) -> Iterator[Violation]:
        if self.path and not is_served_path(self.path):
            yield Violation(("path",), self.path, SERVED_PATH, "Write it like /load")


@frozen
class ReadinessSettings(Settings):
    """A ``path`` that answers 503 while one of the ``levels`` rejects requests for load.

    That begins when rejections have been seen for ``after_ns``, and ends when none has been seen for ``recover_ns``.
    """

    levels: TextSet
    path: NonEmpty = "/readyz"
    after_ns: Nanoseconds = 2 * _SECOND
    recover_ns: Nanoseconds = 10 * _SECOND

    def rules(self) -> Iterator[Violation]:
        if not self.levels:
            yield Violation(("levels",), self.levels, "there must be at least one", "Name the levels that matter")
        if not is_served_path(self.path):
            yield Violation(("path",), self.path, SERVED_PATH, "Write it like /readyz")
