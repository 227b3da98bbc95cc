"""One recorded request, as it came, and what the server did with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from apf_middleware.classification.text import printable

__all__ = ["OUTCOMES", "Outcome", "RecordedRequest"]

Outcome = Literal["", "served", "failed", "rejected", "hung-up", "passed", "running", "waiting"]
"""What became of a request; empty if that isn't known.

A ``passed`` request was waiting when the server stopped limiting requests. A request was still ``running`` or
``waiting`` when the recording ended.
"""

OUTCOMES: Final[frozenset[Outcome]] = frozenset(get_args(Outcome))


@dataclass(slots=True)  # frozen, it would take three times as long to create
class RecordedRequest:
    """One recorded request; ``time_ns`` counts from the start of the recording, or from the first row of a log.

    ``duration_ns`` is the time for which it had its seats, and ``wait_ns`` the time until it got them or was rejected;
    both are None where they aren't known. ``seats`` is 0 where it isn't known. ``level`` is empty unless the server
    that recorded the request has classified it; then ``schema``, ``flow`` and ``weight`` are known, too. ``route`` is
    the template of the path that the app has found, ``status`` that of the response, or 0 if the request was rejected.
    ``deadline_ns`` is the time that was left on arrival. A request that ``is_standing`` had arrived before the
    recording began, and counts from its beginning. ``worker`` is the number of the process that has served it.
    """

    time_ns: int
    duration_ns: int | None
    user: str = ""
    groups: tuple[str, ...] = ()
    method: str = "GET"
    path: str = "/"
    host: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    seats: int = 0
    is_whole_second: bool = False
    route: str = ""
    schema: str = ""
    level: str = ""
    flow: str = ""
    weight: float = 1
    final_seats: int = 0
    linger_ns: int = 0
    wait_ns: int | None = None
    outcome: Outcome = ""
    reason: str = ""
    status: int = 0
    is_stream: bool = False
    deadline_ns: int | None = None
    criticality: str = ""
    is_standing: bool = False
    worker: int = 0

    def listed_as(self, by: str) -> str:
        """Return user, client address, flow, or path without the query; made printable, because logs hold any bytes."""
        if by == "user":
            return printable(self.user) or "(anonymous)"
        if by == "address":
            return printable(self.address) or "(unknown)"
        if by == "flow":
            return printable(f"{self.schema}/{self.flow}") if self.schema else "(unknown)"
        return printable(self.route or self.path.partition("?")[0])
