"""The deadlines of requests: from their headers, and from their schemas and levels.

A deadline is set when the request arrives, before it asks for seats. From then on its wait ends at the deadline at the
latest. A request whose deadline has passed isn't run, because its client no longer waits for the answer.
"""

import time
from collections import Counter
from collections.abc import Mapping

from starlette.types import Scope

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.scope import headers_of
from apf_middleware.config import Configuration
from apf_middleware.config.deadlines import DeadlineSettings
from apf_middleware.estimation import LearnedCosts
from apf_middleware.fairqueuing import Reason
from apf_middleware.propagation.deadline_reader import DeadlineReader
from apf_middleware.runtime import Admission
from apf_middleware.runtime.admission import Destination
from apf_middleware.runtime.time_limits import limit_time

__all__ = ["RequestDeadlines", "build_deadlines"]


class RequestDeadlines:
    """Set the deadlines of requests as ``settings`` say; ``chain`` knows which requests come from trusted proxies.

    ``costs`` has the durations of requests by route. ``of_schemas`` are the deadlines of schemas that have their own,
    which take precedence over that of the level. ``invalid`` is that of the reader.
    """

    def __init__(
        self,
        settings: DeadlineSettings,
        chain: Chain,
        costs: LearnedCosts,
        *,
        of_schemas: Mapping[str, int],
        invalid: Counter[str] | None,
    ) -> None:
        self.reader: DeadlineReader = DeadlineReader(
            settings.headers, settings.started, settings.query, time.time_ns, invalid
        )
        self._settings = settings
        self._groups = frozenset(settings.groups)
        self._of_schemas = dict(of_schemas)
        self._costs = costs
        self._comes_from_proxy = chain.comes_from_proxy

    def begin(self, arrived: int, now: int, admission: Admission, scope: Scope) -> bool:
        """Set the deadline of a request that arrived at ``arrived``; reject it and return False if it can't be kept."""
        if self.set(arrived, now, admission, scope):
            return True
        admission.destination.counters.expired += 1
        admission.destination.controller.refuse(now, admission, Reason.DEADLINE)
        return False

    def set(self, arrived: int, now: int, admission: Admission, scope: Scope) -> bool:
        """Set the deadline of a request that arrived at ``arrived``, if any; return False if it can't be kept."""
        left = self.find(admission.destination, scope, now - arrived)
        # the body may have taken a part of the time
        return left is None or limit_time(admission, now, arrived + left - now, self._costs)

    def find(self, destination: Destination, scope: Scope, age_ns: int = 0) -> int | None:
        """Return the time between the arrival of a request, ``age_ns`` ago, and its deadline; None if it has none."""
        query, from_proxy = scope.get("query_string", b""), self._comes_from_proxy(scope)
        limit, elapsed = self.reader.read(headers_of(scope), query, from_proxy=from_proxy, age_ns=age_ns)
        own = self._of_schemas.get(destination.classification.schema, destination.runtime.deadline_ns)
        if limit is None:
            limit = own
        else:
            # At most half of the time is left for the way back, or an idle server would reject hurried requests.
            limit -= min(self._settings.margin_ns, max(0, limit - elapsed) // 2)
            if own is not None and limit > own:
                limit = min(limit, max(own, self._longest_of(destination, from_proxy=from_proxy)))
        return None if limit is None else limit - elapsed

    def _longest_of(self, destination: Destination, *, from_proxy: bool) -> int:
        """Return the longest time that a header may set; 0 if it may not extend the deadline."""
        longest = self._settings.extend_to_ns
        if longest is None or not (from_proxy or not self._groups.isdisjoint(destination.identity.groups)):
            return 0
        return longest

    def is_late(self, admission: Admission) -> bool:
        """Return whether a request has its seats too late, because the event loop noticed the end of its wait late."""
        latest, destination = admission.latest_start_ns, admission.destination
        if latest is None or destination.runtime.shared.exempt:
            return False
        return destination.controller.now() >= latest

    def __repr__(self) -> str:
        return f"<RequestDeadlines {self.reader!r}>"


def build_deadlines(
    configuration: Configuration, chain: Chain, costs: LearnedCosts, before: RequestDeadlines | None = None
) -> RequestDeadlines | None:
    """Return what sets the deadlines of requests, which counts on from ``before``; None if no request can have one."""
    if not configuration.has_deadlines:
        return None
    settings = configuration.server.deadlines or DeadlineSettings(headers={}, started=())
    invalid = None if before is None else before.reader.invalid
    return RequestDeadlines(settings, chain, costs, of_schemas=configuration.schema_deadlines, invalid=invalid)
