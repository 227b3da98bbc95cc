"""An alarm in virtual time, with the clock that it follows."""

from collections.abc import Callable


class VirtualAlarm:
    """Stands in for `Alarm`; `make` takes the place of its constructor. It rings ``late``."""

    def __init__(self) -> None:
        self.now = 0
        self.at: int | None = None
        self.late = 0
        self.rings = 0

    def make(self, ring: Callable[[], None], _now: Callable[[], int]) -> "VirtualAlarm":
        self._ring = ring
        return self

    def ask(self, at: int) -> None:
        self.at = at if self.at is None else min(at, self.at)

    def ring(self, late: int) -> None:
        """Ring the next time, ``late`` or early."""
        assert self.at is not None
        self.now, self.at = self.at + late, None
        self.rings += 1
        self._ring()

    def run(self, until: int) -> None:
        while self.at is not None and self.at + self.late <= until:
            self.ring(self.late)
        self.now = until


class NullAlarm:
    """Never rings: only what a test asks for happens."""

    def ask(self, at: int) -> None: ...
