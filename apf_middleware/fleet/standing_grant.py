"""A grant that comes into force when another member gives a seat back, without waiting for the allocator.

A seat that moves from one member to another is idle from the report of the one until the grant of the other. A store
that is between the members and the allocator shortens that: with the grants of a division, the allocator leaves one
more there, of a seat more for the member that is next. The store sends this *standing grant* in the step in which it
takes a report by which one of the *givers* has given a seat back, and tells the allocator, after the report itself.

The budget holds if the store keeps two rules. A standing grant comes into force once at most, and not after the grants
of a later division. And the store takes the grants of a division only if its allocator has been told of a standing
grant that has come into force before. So while the allocator doesn't know it, no other member can get the seat, which
it still counts as the giver's.

A report shows that a seat has been given back if the member obeys the last grant that it was sent, and uses fewer seats
than the allocator counts. By the same grant, a member never uses more again (see `membership`). No max is divided by a
standing grant, so its member may use all seats of it for any level.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from apf_middleware.copying import Value
from apf_middleware.fleet.messages import Grant, Report

__all__ = ["Holding", "StandingGrant"]


class Holding(NamedTuple):
    """The ``seats`` that a member uses or may use, and the ``terms`` that it obeys: of a grant, by a configuration."""

    terms: str
    seats: int

    @classmethod
    def of(cls, report: Report) -> "Holding":
        """Return what a report tells."""
        return cls.under(report.sequence, report.configuration, max(report.seats, report.in_use))

    @classmethod
    def under(cls, sequence: int, configuration: str, seats: int) -> "Holding":
        """Return the holding under the grant of this ``sequence``."""
        return cls(f"{sequence}/{configuration}", seats)


@dataclass(frozen=True, slots=True)
class StandingGrant(Value):
    """The ``grant`` for ``member``, in force as soon as one of the ``givers`` holds no more than this."""

    member: str
    grant: Grant
    givers: Mapping[str, Holding]

    def is_due(self, report: Report) -> bool:
        """Return whether this report lets the grant come into force."""
        giver, found = self.givers.get(report.member), Holding.of(report)
        return giver is not None and found.terms == giver.terms and found.seats <= giver.seats
