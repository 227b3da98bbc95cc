"""What a configuration says about requests whose bodies are still on their way, as a plain frozen object."""

from dataclasses import dataclass
from typing import Final

from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["BodySettings"]

_KIB: Final = 1024
_SECOND: Final = 10**9


@dataclass(frozen=True, slots=True)
class BodySettings:
    """How bodies are received while their requests have no seats.

    With ``hold_seats`` an app receives bodies on its seats, and only estimates have them read before. Otherwise up to
    ``buffer`` bytes are received before a request asks for seats. A request of whose body fewer than ``min_rate`` bytes
    a second come, over ``patience_ns``, is ended. At most ``max_receiving`` requests are received at a time, and of
    parts that came one after the other at most ``max_buffered`` bytes are kept. Methods whose bodies have no meaning
    are left alone, unless ``any_method``.
    """

    hold_seats: bool = True
    buffer: int = 64 * _KIB
    min_rate: int = _KIB
    patience_ns: int = 10 * _SECOND
    max_receiving: int = 1000
    max_buffered: int = 32 * _KIB * _KIB
    any_method: bool = False

    def __post_init__(self) -> None:
        for name in ("buffer", "patience_ns", "max_receiving", "max_buffered"):
            require_integer(name, getattr(self, name), least=1)
        require_integer("min_rate", self.min_rate, least=0)
        if self.buffer > self.max_buffered:
            rule = f"it must not exceed max_buffered, which is {self.max_buffered}"
            raise InvalidValueError("buffer", self.buffer, rule)

    @property
    def least_bytes(self) -> int:
        """How many bytes of a body have to arrive within the patience."""
        return self.min_rate * self.patience_ns // _SECOND
