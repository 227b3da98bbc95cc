"""Settings of a number of seats that the server finds by itself: ``seats: {adaptive: …}`` of a Server document."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final

from pydantic import Discriminator, Field, Tag, WrapValidator

from apf_middleware.adaptive import AdaptiveSettings
from apf_middleware.config.settings import Settings, Violation, without_tag
from apf_middleware.frozen import frozen

__all__ = ["MOST_SEATS", "AdaptiveSeats", "SeatBounds", "SeatNumber"]

MOST_SEATS: Final = 10_000_000

_Bound = Annotated[int, Field(ge=1, le=1_000_000)]


@frozen
class SeatBounds(Settings):
    """The least and the largest number of seats, and the one to start with, which is the least by default."""

    min: _Bound
    max: _Bound
    start: _Bound | None = None

    def rules(self) -> Iterator[Violation]:
        if self.max < self.min:
            yield Violation(("max",), self.max, f"it must be at least min, {self.min}")
        elif self.start is not None and not self.min <= self.start <= self.max:
            rule = f"it must be from min, {self.min}, to max, {self.max}"
            yield Violation(("start",), self.start, rule, "Leave it out to start with min")

    @property
    def first(self) -> int:
        """The number of seats at the start."""
        return self.min if self.start is None else self.start

    def clamp(self, seats: int) -> int:
        """Return the number within the bounds that is closest to ``seats``."""
        return max(self.min, min(self.max, seats))

    def settings(self, start: int) -> AdaptiveSettings:
        """Return the settings of the controller that finds the number, beginning with ``start``."""
        return AdaptiveSettings(self.min, self.max, start)


@frozen
class AdaptiveSeats(Settings):
    """A number of seats that follows what the server can do at once."""

    renamed: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("min", "max", "start"), "It belongs below adaptive, as in {adaptive: {min: 5, max: 400}}"
    )

    adaptive: SeatBounds


def _kind(value: object) -> str:
    return "adaptive" if isinstance(value, Mapping | AdaptiveSeats) or value == "adaptive" else "number"


_Number = Annotated[int, Field(ge=1, le=MOST_SEATS)]

SeatNumber = Annotated[
    Annotated[_Number, Tag("number")] | Annotated[AdaptiveSeats, Tag("adaptive")],
    Discriminator(_kind),
    WrapValidator(without_tag),
]
"""The ``seats`` of a server: a number, or the bounds of one."""
