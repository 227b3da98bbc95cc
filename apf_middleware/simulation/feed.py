"""Recorded requests as a load: each comes when it came, from whom it came, and takes as long as it took.

Rows stream in; nothing is kept of them but who the callers were. Beyond a bound of those, whoever comes is forgotten
again: what they get counts for their tenant, but not for the index of fairness.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from apf_middleware.config.scenario import Tenant
from apf_middleware.simulation.clients import Client, Party, draw_seats
from apf_middleware.simulation.directory import Asker, identity_of
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
    """The callers of a recording."""

    def __init__(self, parties: list[Party], recording: Recording, clients: list[Client]) -> None:
        self._parties = dict(zip(recording.names, parties, strict=True))
        self._recording = recording
        self._clients = clients  # the ledger's
        self._known: dict[tuple[object, ...], Client] = {}

    def client(self, row: Row) -> Client:
        """Who asked."""
        key = (row.user, row.groups, row.address, row.method, row.path, row.host, tuple(row.headers.items()))
        known = self._known.get(key)
        if known is not None:
            return known
        name = self._recording.name_of(row)
        name = name if name in self._parties else OTHERS
        asker = Asker(identity_of(row.user, row.groups), row.method, row.path, row.host, row.headers, row.address)
        client = Client(self._parties[name], asker)
        if len(self._known) < MOST_CALLERS:
            self._known[key] = client
            self._clients.append(client)
        return client


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
