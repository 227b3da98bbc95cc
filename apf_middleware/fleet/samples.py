"""What the requests of one member have shown about the load, for the controller of the fleet's total.

Durations are in nanoseconds, as are the ages: the time from the end of a request to the report that has it. The columns
are equally long. ``rejected`` are the requests that found no seats since the report before.
"""

from dataclasses import dataclass

from apf_middleware.copying import Value

__all__ = ["DurationSamples"]


@dataclass(frozen=True, slots=True)
class DurationSamples(Value):
    """Requests that have ended: their ``routes`` (hashes), ``durations``, ``ages`` and ``outcomes`` (numbers)."""

    rejected: int = 0
    routes: tuple[int, ...] = ()
    durations: tuple[int, ...] = ()
    ages: tuple[int, ...] = ()
    outcomes: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.routes)
