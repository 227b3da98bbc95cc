"""Settings of request bodies that are still on their way: the ``bodies`` of a Server document."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from pydantic import Field

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import DEPENDS, Nanoseconds, Size, written_size
from apf_middleware.frozen import frozen

__all__ = ["BodySettings"]

_KIB: Final = 1024
_SECOND: Final = 10**9


@frozen
class BodySettings(Settings):
    """The reception of bodies while their requests have no seats.

    With ``hold_seats``, requests hold seats while their bodies arrive, except for bodies that an estimate reads; the
    default depends on the suggested objects. Otherwise up to ``buffer`` bytes are received before a request asks for
    seats. A request is ended if fewer than ``min_rate`` bytes a second of its body arrive over ``patience_ns``. At most
    ``max_receiving`` requests are received at a time, and at most ``max_buffered`` bytes are kept of all bodies that
    don't arrive at once. Methods for which a body has no meaning are ignored, unless ``any_method`` is true.
    """

    always_written: ClassVar[frozenset[str]] = frozenset({"hold_seats"})

    hold_seats: Annotated[bool, DEPENDS] = True
    buffer: Size = 64 * _KIB
    min_rate: Size = _KIB
    max_buffered: Size = 32 * _KIB * _KIB
    patience_ns: Nanoseconds = 10 * _SECOND
    max_receiving: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    any_method: bool = False

    def rules(self) -> Iterator[Violation]:
        if self.buffer < 1:
            yield Violation(("buffer",), self.buffer, "it must be more than zero", "Write holdSeats: true")
        if self.buffer > self.max_buffered:
            rule = f"it must not exceed maxBuffered, which is {written_size(self.max_buffered)}"
            yield Violation(("buffer",), self.buffer, rule)
        if self.patience_ns < 1:
            hint = "Write minRate: 0B to let bodies take any time"
            yield Violation(("patience_ns",), self.patience_ns, "it must be more than zero", hint)

    @property
    def least_bytes(self) -> int:
        """The number of bytes of a body that must arrive within ``patience_ns``."""
        return self.min_rate * self.patience_ns // _SECOND
