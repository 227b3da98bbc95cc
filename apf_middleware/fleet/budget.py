"""The seats of a fleet, and what its levels claim of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apf_middleware.copying import Value
from apf_middleware.exceptions import require_integer
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand

__all__ = ["Budget"]


@dataclass(frozen=True, slots=True)
class Budget(Value):
    """The seats of the fleet, and the claims of its levels and their parents; their ``demand`` is not used."""

    seats: int
    claims: Mapping[str, SeatDemand] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_integer("seats", self.seats, least=0)
