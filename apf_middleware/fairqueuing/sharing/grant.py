"""The seats that one member of a fleet may use, while the other members use the rest of a common number of seats.

The levels keep their limits, which are those of the whole fleet. A grant says how many of the fleet's seats this member
may use, how it divides them among its levels, and which part of a level's max it may use. It ends with its lease; from
then on the member may use its ``fallback`` seats, until it gets another grant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from apf_middleware.copying import Value
from apf_middleware.exceptions import require_integer

__all__ = ["LEASED_FOR_EVER", "LevelGrant", "SeatGrant"]

LEASED_FOR_EVER: Final = 2**62 - 1
"""The end of a lease that doesn't end."""


@dataclass(frozen=True, slots=True)
class LevelGrant(Value):
    """One level's part of a grant: its ``weight`` against the member's other levels, and its own ``least`` seats.

    The weights are proportions of any unit. No other level may use the ``least`` seats. Those of a parent are for all
    its children, besides what each of these is promised; its weight is that of the children.
    """

    weight: int
    least: int = 0

    def __post_init__(self) -> None:
        require_integer("weight", self.weight, least=0)
        require_integer("least", self.least, least=0)


@dataclass(frozen=True, slots=True)
class SeatGrant(Value):
    """At most ``seats`` until ``lease_until``, and then at most ``fallback``; ``levels`` may lack some levels.

    ``maxes`` are the most seats of levels and parents whose max is divided among the members. Then a request that is
    wider than this part waits until the part has grown.

    No later grant has more than ``most`` seats, unless that is 0. So a wider request runs when nothing else of its
    level does, as if ``most`` were the level's max.
    """

    seats: int
    lease_until: int = LEASED_FOR_EVER
    fallback: int = 0
    levels: Mapping[str, LevelGrant] = field(default_factory=dict)
    most: int = 0
    maxes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_integer("seats", self.seats, least=0)
        require_integer("lease_until", self.lease_until)
        require_integer("fallback", self.fallback, least=0)
        require_integer("most", self.most, least=0)
        for name, seats in self.maxes.items():
            require_integer(f"max of {name}", seats, least=0)

    def lapsed(self) -> "SeatGrant":
        """Return the grant that holds when the lease has ended."""
        return SeatGrant(self.fallback, fallback=self.fallback)
