"""Durations for recorded requests that have none, because they were rejected or hung up, or a log doesn't tell them.

They are drawn from the durations of requests for the same path of the same schema, or else of the schema, or else of
all. A bounded number is kept of each.
"""

import re
from random import Random
from typing import Final

from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.recordings import RecordedRequest
from apf_middleware.simulation.sample import Sample

__all__ = ["RecordedDurations"]

_MOST_KEYS: Final = 2_000
_VARIABLE: Final = re.compile(r"/(?:~[0-9a-f]{16}|[^/]*\d[^/]*)(?=/|$)")


class RecordedDurations:
    """Durations of recorded requests, by schema and path."""

    __slots__ = ("_dice", "_found", "_samples")

    def __init__(self) -> None:
        self._samples: dict[tuple[str, ...], Sample] = {}
        # By schema, method and path, so that not each request has to be looked up three times.
        self._found: BoundedCache[tuple[str, str, str], tuple[Sample, ...]] = BoundedCache(_MOST_KEYS)
        self._dice = Random("durations")  # noqa: S311 - a simulation

    @property
    def is_empty(self) -> bool:
        """Whether no request with a duration was added."""
        return not self._samples

    def add(self, request: RecordedRequest) -> None:
        """Keep the duration of a request, if it has one."""
        if request.duration_ns is None or request.outcome in {"rejected", "hung-up"}:
            return
        place = (request.schema, request.method, request.path)
        found = self._found.get(place)
        if found is None:
            found = tuple(sample for key in _keys(request) if (sample := self._sample(key)) is not None)
            self._found.put(place, found)
        for sample in found:
            sample.add(request.duration_ns, self._dice)

    def _sample(self, key: tuple[str, ...]) -> Sample | None:
        """Return the sample of this key, or a new one; None if there are too many."""
        sample = self._samples.get(key)
        if sample is None and (len(self._samples) < _MOST_KEYS or not key):
            sample = self._samples[key] = Sample()
        return sample

    def draw(self, request: RecordedRequest, dice: Random) -> int | None:
        """Return a duration for a request; None if none is known."""
        for key in _keys(request):
            if key in self._samples:
                return dice.choice(self._samples[key].values)
        return None


def _keys(request: RecordedRequest) -> tuple[tuple[str, ...], ...]:
    path = _VARIABLE.sub("/{}", request.path.partition("?")[0])
    return (request.schema, request.method, path), (request.schema,), ()
