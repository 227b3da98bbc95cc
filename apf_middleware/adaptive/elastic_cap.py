"""The cap of one elastic level: cut by a part of what the level really uses, and grown by a few seats."""

from typing import Final

from apf_middleware.adaptive.elastic_reason import ElasticReason
from apf_middleware.exceptions import require_integer

__all__ = ["ElasticCap"]

_KEPT_PERCENT: Final = 70
_STEPS: Final = 10  # from nothing to the nominal seats


class ElasticCap:
    """The ``cap`` of a level whose min is ``least``, whose max is ``most``, and whose nominal seats are ``nominal``.

    Without a cap, it is None. The cap of several levels grows in proportion to their nominal seats and is cut in
    proportion to itself, so that they end with seats in proportion to their nominal seats (Chiu and Jain, 1989).
    ``changes`` counts both.
    """

    __slots__ = ("_dispatched", "_floor", "_step", "_used", "_was_active", "cap", "changes", "most", "reason")

    def __init__(self, least: int, nominal: int, most: int) -> None:
        self.cap: int | None = None
        self.reason: ElasticReason = ElasticReason.OPEN
        self.changes: dict[ElasticReason, int] = {ElasticReason.CUT: 0, ElasticReason.GREW: 0}
        self._used = 0  # at most, since the last decision
        self._dispatched = 0
        self._was_active = False
        self.resize(least, nominal, most)

    def resize(self, least: int, nominal: int, most: int) -> None:
        """Set other limits of the level."""
        self._floor = max(1, require_integer("least", least, least=0))
        self._step = max(1, require_integer("nominal", nominal, least=0) // _STEPS)
        self.most: int = require_integer("most", most, least=0)
        if self.cap is not None:
            self.cap = max(self.cap, self._floor)
            self._open_if_wide()

    def note(self, used: int, waiting: int, dispatched: int) -> None:
        """Note the seats in use, the requests that wait, and the number of requests that have got seats so far.

        Requests that never await anything run between two looks, so no look finds them in their seats.
        """
        self._used = max(self._used, used)
        self._was_active |= bool(used or waiting or dispatched != self._dispatched)
        self._dispatched = dispatched

    def cut(self) -> bool:
        """Cut the cap, because the event loop is late; return whether it is another one now."""
        used, was_active = self._used, self._was_active
        self._used, self._was_active = 0, False
        if not was_active:  # then the level isn't the cause
            return False
        before = self.cap
        found = used if before is None else min(before, used)
        self.cap = max(self._floor, found * _KEPT_PERCENT // 100)
        self.reason = ElasticReason.FLOOR if self.cap == self._floor else ElasticReason.CUT
        if self.cap == before:
            return False
        self.changes[ElasticReason.CUT] += 1
        return True

    def grow(self, steps: int) -> bool:
        """Let the cap grow by a number of ``steps``; return whether it has changed."""
        self._used, self._was_active = 0, False
        if self.cap is None:
            return False
        self.cap += steps * self._step
        self.changes[ElasticReason.GREW] += 1
        self.reason = ElasticReason.GREW
        self._open_if_wide()
        return True

    def _open_if_wide(self) -> None:
        if self.cap is not None and self.cap >= self.most:
            self.cap = None
            self.reason = ElasticReason.OPEN

    def __repr__(self) -> str:
        return f"<ElasticCap: {'none' if self.cap is None else self.cap}, {self.reason}>"
