"""What a server tells its member of a fleet."""

from typing import Protocol

__all__ = ["SeatsHolder"]


class SeatsHolder(Protocol):
    """A member of a fleet, which asks for seats and gives them back."""

    def note_waiting(self, length: int) -> None:
        """Note that a request has begun to wait, in a queue of this ``length``."""
        ...

    def note_released(self) -> None:
        """Note that seats have been given back."""
        ...

    def note_reconfigured(self) -> None:
        """Note that another configuration is in force."""
        ...

    def tell(self, key: str, value: str) -> None:
        """Tell all members something that replaces what was told under the same ``key``."""
        ...
