"""The fixed limits of levels in seats, computed from their shares.

Nominal seats are in proportion to the shares; a level may lend some of them, and borrow others. All computations use
integers only.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from apf_middleware.copying import Value
from apf_middleware.exceptions import MOST_AMOUNT, InvalidValueError, require_flag, require_integer

__all__ = ["LevelLimits", "LevelShares", "limits_from_shares"]

LevelT = TypeVar("LevelT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class LevelShares(Value):
    """The configuration of a level's seats, in proportions.

    If ``borrowing_percent`` is None, the level may borrow as many seats as the server has. For an exempt level it must
    be None, because such a level has no limit.
    """

    shares: int
    lendable_percent: int = 0
    borrowing_percent: int | None = None
    exempt: bool = False

    def __post_init__(self) -> None:
        require_integer("shares", self.shares, least=0)
        require_integer("lendable_percent", self.lendable_percent, least=0, most=100)
        if self.borrowing_percent is not None:
            require_integer("borrowing_percent", self.borrowing_percent, least=0)
        require_flag("exempt", self.exempt)
        if self.exempt and self.borrowing_percent is not None:
            raise InvalidValueError("borrowing_percent", self.borrowing_percent, "an exempt level has none")


@dataclass(frozen=True, slots=True)
class LevelLimits(Value):
    """A level's limits in seats: its current limit stays between ``min`` and ``max``."""

    nominal: int
    min: int
    max: int

    def __post_init__(self) -> None:
        require_integer("nominal", self.nominal, least=0, most=MOST_AMOUNT)
        require_integer("min", self.min, least=0, most=self.nominal)
        require_integer("max", self.max, least=self.nominal, most=MOST_AMOUNT)


def limits_from_shares(
    seats: int, levels: Mapping[LevelT, LevelShares], *, strict_upstream: bool = False
) -> dict[LevelT, LevelLimits]:
    """Return the limits of all ``levels`` of a server with this number of ``seats``.

    Nominal seats are rounded up, so every level with shares has at least one, and their sum may be more than ``seats``.
    Zero shares mean zero seats; with ``strict_upstream`` such a level may still borrow, as in Kubernetes.
    """
    require_integer("seats", seats, least=0)
    total = sum(level.shares for level in levels.values())
    return {
        name: LevelLimits(0, 0, 0)
        if not (level.shares or level.exempt or strict_upstream)
        else _limits(seats, level, total)
        for name, level in levels.items()
    }


def _limits(seats: int, level: LevelShares, total: int) -> LevelLimits:
    nominal = -(-seats * level.shares // total) if total else 0
    percent = level.borrowing_percent
    borrowing = seats if percent is None else _percent_of(nominal, percent)
    return LevelLimits(nominal, nominal - _percent_of(nominal, level.lendable_percent), nominal + borrowing)


def _percent_of(seats: int, percent: int) -> int:
    """Return a percentage of ``seats``, rounded to whole seats, half a seat up."""
    return (seats * percent + 50) // 100
