"""Whether a balancer should send requests here: not while levels have rejected requests for some time."""

from collections.abc import Iterable, Mapping

__all__ = ["Readiness"]


class Readiness:
    """The readiness of a server, by the counts of rejections of its ``levels``.

    A level rejects too much if rejections have been seen for ``after_ns``, and until none is seen for ``recover_ns``.
    The counts are looked at when a balancer asks, so two looks with new rejections show that they last from one to the
    other, unless looks between them have found none for one of these times.
    """

    __slots__ = ("_after_ns", "_began", "_counts", "_last", "_levels", "_recover_ns")

    def __init__(self, levels: Iterable[str], after_ns: int, recover_ns: int) -> None:
        self._levels = tuple(levels)
        self._after_ns = after_ns
        self._recover_ns = recover_ns
        self._counts: dict[str, int] = {}
        self._began: dict[str, int] = {}  # by level that rejects: when that was seen first
        self._last: dict[str, int] = {}  # and last

    def look(self, now: int, rejected: Mapping[str, int]) -> dict[str, int]:
        """Return the levels that reject too much, with the times since when; ``rejected`` counts since the start."""
        for level in self._levels:
            count, before = rejected.get(level, 0), self._counts.get(level)
            self._counts[level] = count
            if before is not None and count > before:
                self._began.setdefault(level, now)
                self._last[level] = now
            elif level in self._began:
                limit_ns = self._recover_ns if self._has_lasted(level) else min(self._after_ns, self._recover_ns)
                if now - self._last[level] >= limit_ns:
                    del self._began[level], self._last[level]
        return {level: began for level, began in self._began.items() if self._has_lasted(level)}

    def _has_lasted(self, level: str) -> bool:
        """Return whether the level has rejected requests for long enough."""
        return self._last[level] - self._began[level] >= self._after_ns

    def __repr__(self) -> str:
        return f"<Readiness of {', '.join(self._levels)}: {', '.join(self._began) or 'none'} reject>"
