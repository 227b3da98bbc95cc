"""Recorded requests as a load: each comes when it came, from whom it came, and takes as long as it took.

Rows stream in; nothing is kept of them but who the callers were. Beyond a bound of those, whoever comes is forgotten
again: what they get counts for their tenant, but not for the index of fairness.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from apf_middleware.config.scenario import Tenant
from apf_middleware.simulation.clients import Client, Party, draw_seats
from apf_middleware.simulation.directory import MOST_KNOWN, Asker, identity_of
from apf_middleware.simulation.trace import Row, Survey, Trace

if TYPE_CHECKING:
    from apf_middleware.simulation.run import Simulation

__all__ = ["MOST_CALLERS", "OTHERS", "By", "Crowd", "Feed", "Recording"]

MOST_CALLERS: Final = 5_000
"""So many callers are told apart."""

OTHERS: Final = "(others)"
"""Those who aren't listed by name."""

By = Literal["user", "address", "path"]
"""What the rows of a trace are listed by."""

_LISTED: Final = 12


@dataclass(frozen=True, slots=True)
class Recording:
    """A trace, surveyed, and how it is to be listed."""

    trace: Trace
    survey: Survey
    by: By = "user"

    @property
    def span_ns(self) -> int:
        return self.survey.span_ns

    @property
    def names(self) -> tuple[str, ...]:
        """The most frequent ones, and the others."""
        counted = self.survey.counts[self.by]
        names = [name for name, _ in counted.most_common(_LISTED)]
        return (*names, OTHERS) if len(counted) > _LISTED else tuple(names)

    def rows(self, seed: int) -> Iterator[Row]:
        return self.trace.rows(seed)

    def name_of(self, row: Row) -> str:
        """What a row is listed under."""
        return row.told(self.by)


class Crowd:
    """The callers of a recording: users, or the addresses of those without a name, each under what it is listed by.

    What a caller asks for changes from row to row, and its ``asker`` with it.
    """

    def __init__(self, parties: list[Party], recording: Recording, clients: list[Client]) -> None:
        self._parties = dict(zip(recording.names, parties, strict=True))
        self._recording = recording
        self._counted = clients  # the ledger's
        self._clients: dict[tuple[str, str], Client] = {}
        self._askers: dict[tuple[object, ...], Asker] = {}

    def client(self, row: Row) -> Client:
        """Who asked, and for what."""
        asker = self._asker(row)
        name = self._recording.name_of(row)
        name = name if name in self._parties else OTHERS
        key = (name, row.user or row.address)
        client = self._clients.get(key)
        if client is None:
            client = Client(self._parties[name], asker)
            if len(self._clients) < MOST_CALLERS:
                self._clients[key] = client
                self._counted.append(client)
        client.asker = asker
        return client

    def _asker(self, row: Row) -> Asker:
        key = (row.user, row.groups, row.address, row.method, row.path, row.host, tuple(row.headers.items()))
        known = self._askers.get(key)
        if known is None:
            known = Asker(identity_of(row.user, row.groups), row.method, row.path, row.host, row.headers, row.address)
            if len(self._askers) < MOST_KNOWN:
                self._askers[key] = known
        return known


class Feed:
    """Plays rows, one planned at a time; ``tenant`` says what they don't."""

    __slots__ = ("_client", "_rows", "_simulation", "_tenant", "_until")

    def __init__(
        self,
        simulation: "Simulation",
        rows: Iterator[Row],
        client: Callable[[Row], Client],
        tenant: Tenant | None,
        until: int,
    ) -> None:
        self._simulation = simulation
        self._rows = rows
        self._client = client
        self._tenant = tenant
        self._until = until

    def begin(self) -> None:
        """Plan the first row."""
        row = next(self._rows, None)
        if row is None:
            return
        at = row.time_ns + (self._tenant.begin_ns if self._tenant else 0)
        if at < self._until:
            self._simulation.agenda.at(at, self._play, row)

    def _play(self, row: Row) -> None:
        client, tenant = self._client(row), self._tenant
        duration, seats = row.duration_ns, row.seats
        if tenant is not None:
            duration = tenant.service.draw(client.dice) if duration is None else duration
            seats = seats or draw_seats(tenant, client.dice)
        self.begin()
        self._simulation.ask(client, duration or 0, seats)
