"""How requests ended that didn't end well, counted exactly without a look at each one's end.

That a request fails is known when its response begins or its app raises; it counts as running until its seats are free.
So it is noted here when it is known, and counted when somebody asks, or when many have been noted.
"""

from typing import Final

from apf_middleware.fairqueuing import Ticket, TicketState

__all__ = ["Endings"]

_SEATED: Final = TicketState.SEATED
_LEAST: Final = 64


class Endings:
    """Counts tickets that were noted and have given up their seats."""

    __slots__ = ("_limit", "_noted", "_settled")

    def __init__(self) -> None:
        self._settled = 0
        self._noted: list[Ticket] = []
        self._limit = _LEAST

    def note(self, ticket: Ticket) -> None:
        """It will end so; to be called once for each."""
        self._noted.append(ticket)
        if len(self._noted) >= self._limit:
            self._settle()
            self._limit = _LEAST + 2 * len(self._noted)

    def _settle(self) -> None:
        running = [ticket for ticket in self._noted if ticket.state is _SEATED]
        self._settled += len(self._noted) - len(running)
        self._noted = running

    def plus(self, other: "Endings") -> "Endings":
        """The sum of both, as they are now."""
        both = Endings()
        both._settled = self.count + other.count
        both._noted = [*self._noted, *other._noted]  # noqa: SLF001
        return both

    @property
    def count(self) -> int:
        self._settle()
        return self._settled

    def __repr__(self) -> str:
        return f"<Endings: {self.count}, and {len(self._noted)} to come>"
