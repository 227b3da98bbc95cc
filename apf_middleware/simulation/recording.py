"""Recorded requests as a load: each arrives at its recorded time, from its caller, and takes its recorded duration.

Rows are streamed. Only the clients are kept, up to a bound: what further clients get counts for their tenants but not
for the index of fairness.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from apf_middleware.classification.digest import identity_of
from apf_middleware.config import Configuration
from apf_middleware.config.fingerprint import fingerprint
from apf_middleware.config.scenario import Tenant
from apf_middleware.copying import Value
from apf_middleware.exceptions import TraceFormatError
from apf_middleware.fairqueuing import Reason
from apf_middleware.fairqueuing.ticket import BEFORE_SEATS
from apf_middleware.recordings import RecordedRequest
from apf_middleware.simulation.arrivals import Arrivals, draw_seats
from apf_middleware.simulation.destinations import MOST_KNOWN, RecordedPlace, RequestTemplate
from apf_middleware.simulation.requests import ClientGroup, SimulatedClient
from apf_middleware.simulation.trace import RequestTrace, TraceSurvey

__all__ = ["MOST_CLIENTS", "OTHERS", "By", "RecordedArrivals", "RecordedClients", "Recording"]

MOST_CLIENTS: Final = 5_000
"""The number of clients that are counted one by one."""

OTHERS: Final = "(others)"
"""The name under which all that are not listed are summed up."""

By = Literal["user", "address", "path", "flow"]
"""The property by which the rows of a trace are listed."""

_LISTED: Final = 12


@dataclass(frozen=True, slots=True)
class Recording(Value):
    """A trace, its survey, and the property by which its requests are listed.

    It may have been recorded under the configuration ``known``.
    """

    trace: RequestTrace
    survey: TraceSurvey
    by: By = "user"
    known: Configuration | None = None

    @property
    def span_ns(self) -> int:
        return self.survey.span_ns

    @property
    def names(self) -> tuple[str, ...]:
        """The most frequent names, and one for all others."""
        counted = self.survey.counts[self.by]
        names = [name for name, _ in counted.most_common(_LISTED)]
        return (*names, OTHERS) if len(counted) > _LISTED else tuple(names)

    def is_placed_by(self, configuration: Configuration) -> bool:
        """Return whether requests keep their schemas, levels and flows: with the schemas under which it was recorded.

        Names may be hashed, so the rules of these schemas might not accept the same requests again.
        """
        header, known = self.survey.header, self.known
        if header is None:
            return False
        recorded = known if known is not None and known.schemas == configuration.schemas else configuration
        return header.configuration == fingerprint(recorded)

    def rows(self, seed: int) -> Iterator[RecordedRequest]:
        """Yield the rows in order of time."""
        return self.trace.rows(seed)

    def name_of(self, row: RecordedRequest) -> str:
        """Return the name under which ``row`` is listed."""
        return row.listed_as(self.by)

    def draw_duration(self, row: RecordedRequest, dice: Random) -> int:
        """Return the duration of another request for ``row``, which has none.

        Raises:
            TraceFormatError: no request has a duration.
        """
        found = self.survey.durations.draw(row, dice)
        if found is not None:
            return found
        if _refusal(row) is not None:  # it doesn't run
            return 0
        rule = "there is no request with a duration in it, so it isn't known how long they take"
        hint = "Write duration (in seconds) into each line, or use apf record while requests are served"
        raise TraceFormatError(f"{self.trace.path}: {rule}. {hint}")


class RecordedClients:
    """The clients of a recording: users, or the addresses of requests without a user.

    Each row of a client may be another request, so each replaces the client's ``template``. Clients that are counted
    one by one are added to ``measured``. Requests keep the schema, level and flow of the recording if they are
    simulated ``as_placed``.
    """

    def __init__(
        self, groups: list[ClientGroup], recording: Recording, measured: list[SimulatedClient], *, as_placed: bool
    ) -> None:
        self._as_placed = as_placed
        self._groups = dict(zip(recording.names, groups, strict=True))
        self._recording = recording
        self._measured = measured
        self._clients: dict[tuple[str, str], SimulatedClient] = {}
        self._templates: dict[tuple[object, ...], RequestTemplate] = {}

    def client(self, row: RecordedRequest) -> SimulatedClient:
        """Return the client of ``row``, with the template of that request."""
        template = self._template(row)
        name = self._recording.name_of(row)
        name = name if name in self._groups else OTHERS
        key = (name, row.user or row.address)
        client = self._clients.get(key)
        if client is None:
            client = SimulatedClient(self._groups[name], template)
            if len(self._clients) < MOST_CLIENTS:
                self._clients[key] = client
                self._measured.append(client)
        client.template = template
        client.patience_ns = (row.wait_ns or 0) if row.outcome == "hung-up" else 0
        client.refused = _refusal(row)
        client.told_ns = row.deadline_ns
        return client

    def _template(self, row: RecordedRequest) -> RequestTemplate:
        place = RecordedPlace(row.schema, row.level, row.flow, row.weight) if self._as_placed and row.level else None
        more = (row.final_seats, row.linger_ns, row.worker)
        key = (row.user, row.groups, row.address, row.method, row.path, row.host, *row.headers.items(), place, *more)
        known = self._templates.get(key)
        if known is None:
            identity = identity_of(row.user, row.groups)
            known = RequestTemplate(identity, row.method, row.path, row.host, row.headers, row.address, place, *more)
            if len(self._templates) < MOST_KNOWN:
                self._templates[key] = known
        return known


@dataclass(frozen=True, slots=True)
class RecordedArrivals(Value):
    """Makes a request for each row, one scheduled at a time.

    ``tenant`` supplies what the rows don't contain. Without one, ``draw`` returns durations for requests without any.
    """

    arrivals: Arrivals
    rows: Iterator[RecordedRequest]
    client: Callable[[RecordedRequest], SimulatedClient]
    tenant: Tenant | None
    until: int
    draw: Callable[[RecordedRequest], int] | None = None

    def begin(self) -> None:
        """Schedule the next row."""
        row = next(self.rows, None)
        if row is None:
            return
        at = row.time_ns + (self.tenant.begin_ns if self.tenant else 0)
        if at < self.until:
            self.arrivals.events.at(at, self._make_request, row)

    def _make_request(self, row: RecordedRequest) -> None:
        client, tenant = self.client(row), self.tenant
        duration, seats = row.duration_ns, row.seats
        if tenant is not None:
            duration = tenant.service.draw(client.dice) if duration is None else duration
            seats = seats or draw_seats(tenant, client.dice)
        elif duration is None and self.draw is not None:
            duration = self.draw(row)
        self.begin()
        self.arrivals.submit(client, duration or 0, seats)


def _refusal(row: RecordedRequest) -> Reason | None:
    """Return why a request was refused before it asked for seats; None if it asked for them."""
    if row.outcome == "hung-up" and row.wait_ns == 0 and not row.is_standing:
        return Reason.CANCELLED  # the client left before its body had arrived
    if row.outcome == "rejected" and row.reason in BEFORE_SEATS:
        return Reason(row.reason)
    return None
