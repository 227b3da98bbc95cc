"""What an estimator is, what its answers depend on, and the cut to what a level allows one request.

An estimator is any callable from a request's digest and classification to its work. It may be asynchronous: that is
told by the answer, not by the function, for a function, a partial, an object with ``__call__`` and a decorated one all
look different. What isn't `Work` is awaited.

Whoever remembers requests wants to remember their work as well. So an estimator may say what its answers depend on
beside the facts that are always known (who, method, path, resource, peer): `dependence_of` reads that, and takes an
estimator that says nothing for one that may look at anything.

The cap is Kubernetes': one request has at most 15 % of its level's nominal seats, and at most what leaves a hand of
them room beside each other. Without it a few wide requests would hold up a level until all of its seats are free.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Final

from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Work

__all__ = [
    "ANYTHING",
    "ONE_SEAT",
    "STEADY",
    "AnyEstimator",
    "Dependence",
    "Estimator",
    "cut",
    "dependence_of",
    "plain_work",
    "seat_cap",
]

Estimator = Callable[[RequestDigest, Classification], Work]
"""From a request to its work, at once."""

AnyEstimator = Callable[[RequestDigest, Classification], Work | Awaitable[Work]]
"""From a request to its work, or to something that must be awaited for it."""

ONE_SEAT: Final = Work()
"""What a request takes of which nothing else is known."""

_SHARE: Final = 0.15  # as a double, like upstream's: 0.15 * 20 is 3


@dataclass(frozen=True, slots=True)
class Dependence:
    """What estimates depend on beside the facts that are always known.

    ``headers`` (in lower case), ``query`` and ``body`` of the request; ``changing`` means state outside of it, so that
    an equal request may later have other work; ``anything`` means that a callable may look at all of the request.
    """

    headers: frozenset[str] = frozenset()
    query: bool = False
    changing: bool = False
    anything: bool = False
    body: bool = False

    @property
    def is_steady(self) -> bool:
        """Whether equal requests always have equal work."""
        return not (self.changing or self.anything or self.body)

    def __or__(self, other: "Dependence") -> "Dependence":
        return Dependence(
            self.headers | other.headers,
            self.query or other.query,
            self.changing or other.changing,
            self.anything or other.anything,
            self.body or other.body,
        )


STEADY: Final = Dependence()
"""On nothing else."""

ANYTHING: Final = Dependence(query=True, changing=True, anything=True)
"""What is assumed of a plain callable."""


@lru_cache(maxsize=1024)
def plain_work(seats: int) -> Work:
    """Return the work of so many seats without final seats; common values are made once."""
    return Work(seats)


def dependence_of(estimator: object) -> Dependence:
    """Return the estimator's ``dependence``, or ANYTHING if it has none."""
    told = getattr(estimator, "dependence", ANYTHING)
    if not isinstance(told, Dependence):
        raise InvalidValueError(f"dependence of {estimator!r}", told, "it must be a Dependence")
    return told


def seat_cap(nominal: int, hand_size: int) -> int:
    """Return the most seats that one request may have in a level with so many nominal seats and such hands."""
    require_integer("nominal", nominal, least=0)
    require_integer("hand_size", hand_size, least=1)
    return max(1, min(ceil(_SHARE * nominal), nominal // hand_size))


def cut(work: Work, cap: int) -> Work:
    """``work`` on at most ``cap`` seats at a time; 0 is no cap.

    How long a request runs isn't known, so fewer seats are simply less work. Its final work is known and stays what it
    is: fewer seats for longer.
    """
    if cap == 0 or work.width <= cap:
        return work
    require_integer("cap", cap, least=0)
    if not work.final_seats:
        return plain_work(cap)
    cut_off = work.within(cap)
    return Work(min(work.seats, cap), cut_off.final_seats, cut_off.linger_ns)
