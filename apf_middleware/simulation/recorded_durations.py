"""Durations for recorded requests that have none, because they were rejected or hung up.

They are drawn from the durations of requests for the same path of the same schema, or else of the schema, or else of
all. A bounded number is kept of each.
"""

import re
from random import Random
from typing import Final

from apf_middleware.recordings import RecordedRequest

__all__ = ["RecordedDurations"]

_MOST_KEYS: Final = 2_000
_MOST_SAMPLES: Final = 256
_VARIABLE: Final = re.compile(r"/(?:~[0-9a-f]{16}|[^/]*\d[^/]*)(?=/|$)")


class RecordedDurations:
    """Durations of recorded requests, by schema and path."""

    __slots__ = ("_counts", "_dice", "_samples")

    def __init__(self) -> None:
        self._samples: dict[tuple[str, ...], list[int]] = {}
        self._counts: dict[tuple[str, ...], int] = {}
        self._dice = Random("durations")  # noqa: S311 - a simulation

    def add(self, request: RecordedRequest) -> None:
        """Keep the duration of a request, if it has one."""
        if request.duration_ns is None or request.outcome in {"rejected", "hung-up"}:
            return
        for key in _keys(request):
            samples = self._samples.get(key)
            if samples is None:
                if len(self._samples) >= _MOST_KEYS and key:
                    continue
                samples = self._samples[key] = []
            count = self._counts[key] = self._counts.get(key, 0) + 1
            if len(samples) < _MOST_SAMPLES:
                samples.append(request.duration_ns)
            elif (place := self._dice.randrange(count)) < _MOST_SAMPLES:  # each has the same chance to be kept
                samples[place] = request.duration_ns

    def draw(self, request: RecordedRequest, dice: Random) -> int | None:
        """Return a duration for a request; None if none is known."""
        for key in _keys(request):
            samples = self._samples.get(key)
            if samples:
                return samples[dice.randrange(len(samples))]
        return None


def _keys(request: RecordedRequest) -> tuple[tuple[str, ...], ...]:
    path = _VARIABLE.sub("/{}", request.path.partition("?")[0])
    return (request.schema, request.method, path), (request.schema,), ()
