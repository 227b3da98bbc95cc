"""A bounded sample of any number of values."""

from random import Random
from typing import Final

__all__ = ["Sample"]

_MOST: Final = 256


class Sample:
    """A bounded number of values; each that was added has the same chance to be among them."""

    __slots__ = ("added", "values")

    def __init__(self) -> None:
        self.values: list[int] = []
        self.added: int = 0

    def add(self, value: int, dice: Random) -> None:
        """Add a value; it may replace another one."""
        self.added += 1
        if len(self.values) < _MOST:
            self.values.append(value)
        elif (place := int(dice.random() * self.added)) < _MOST:
            self.values[place] = value

    def __repr__(self) -> str:
        return f"<Sample: {len(self.values)} of {self.added} values>"
