"""The interface of estimators, what their results depend on, and the cap on the seats of one request.

An estimator is any callable from a request's digest and classification to its work. It may be asynchronous. Only its
result shows this reliably, because the callable may be a function, a partial, a decorated function or an object with
``__call__``. A result that isn't `Work` is awaited.

A cache of requests can also cache their work. An estimator may therefore declare what its results depend on besides the
facts that are always known (caller, method, path, resource, peer): `dependence_of` reads the declaration, and assumes
that an estimator without one may use anything.

The cap is Kubernetes': one request gets at most 15 % of its level's nominal seats, and at most these seats divided by
the hand size, so that each queue of a hand can run one request. Without the cap, a few wide requests would block a
level until all of its seats are free.
"""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from math import ceil
from typing import Final

from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Work
from apf_middleware.frozen import frozen

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
"""A synchronous estimator."""

AnyEstimator = Callable[[RequestDigest, Classification], Work | Awaitable[Work]]
"""An estimator that returns work, or an awaitable of it."""

ONE_SEAT: Final = Work()
"""The work of a request about which nothing else is known."""

_SHARE: Final = 0.15  # as a double, like upstream's: 0.15 * 20 is 3


@frozen
class Dependence:
    """The inputs of an estimate besides the facts that are always known.

    ``headers`` (in lower case), ``query`` and ``body`` are those of the request. ``changing`` means state outside of
    the request: an equal request may later have different work. ``anything`` means that a callable may read the whole
    request.
    """

    headers: frozenset[str] = frozenset()
    query: bool = False
    changing: bool = False
    anything: bool = False
    body: bool = False

    @property
    def is_steady(self) -> bool:
        """True if equal requests always have equal work."""
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
"""No further inputs."""

ANYTHING: Final = Dependence(query=True, changing=True, anything=True)
"""The inputs that a plain callable is assumed to have."""


@lru_cache(maxsize=1024)
def plain_work(seats: int) -> Work:
    """Return the work of a request for ``seats`` without final seats; results are cached."""
    return Work(seats)


def dependence_of(estimator: object) -> Dependence:
    """Return the estimator's ``dependence``, or ANYTHING if it has none."""
    dependence = getattr(estimator, "dependence", ANYTHING)
    if not isinstance(dependence, Dependence):
        raise InvalidValueError(f"dependence of {estimator!r}", dependence, "it must be a Dependence")
    return dependence


def seat_cap(nominal: int, hand_size: int) -> int:
    """Return the most seats that one request may have in a level with these nominal seats and this hand size."""
    require_integer("nominal", nominal, least=0)
    require_integer("hand_size", hand_size, least=1)
    # at least 1, because 0 would mean no cap
    return max(1, min(ceil(_SHARE * nominal), nominal // hand_size))


def cut(work: Work, cap: int) -> Work:
    """Return ``work`` on at most ``cap`` seats at a time; 0 means no cap.

    The duration of a request isn't known, so fewer seats mean less work. The final work is known and stays the same:
    fewer seats for a longer time.
    """
    # The common case: no cap, or narrow enough.
    if cap == 0 or work.width <= cap:
        return work
    require_integer("cap", cap, least=0)
    if not work.final_seats:
        return plain_work(cap)
    cut_off = work.within(cap)  # the same final work on fewer seats, for longer
    return Work(min(work.seats, cap), cut_off.final_seats, cut_off.linger_ns)
