"""The choice of a request's estimator, and its estimate within the level's cap.

A route's estimator takes precedence over a schema's, because the operation says more about the work than the caller
does. A schema's estimator takes precedence over the default. Routes are looked up in a table of all routes, including
those without an estimator, so that the most specific route decides, as it does for the resource.
"""

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from apf_middleware.classification import Classification, RequestDigest, RouteTable
from apf_middleware.estimation.base import ONE_SEAT, STEADY, AnyEstimator, Dependence, cut, dependence_of
from apf_middleware.estimation.declared import Constant, Declared
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Work
from apf_middleware.frozen import frozen

__all__ = ["Choice", "Estimate", "Estimation", "RouteEstimator"]

_NOTHING: Final[Mapping[str, AnyEstimator]] = {}
_NO_CAPS: Final[Mapping[str, int]] = {}


@frozen
class RouteEstimator:
    """The estimator of requests for a path template; None leaves the choice to the schema."""

    path: str
    methods: tuple[str, ...] = ()
    estimator: AnyEstimator | None = None


class _Numbered(NamedTuple):
    """A route in the form of a route table, with its index as the resource."""

    path: str
    resource: str
    methods: tuple[str, ...]
    subresource: str = ""


class Estimate(NamedTuple):
    """A request's work, and the width that it would have without its level's cap."""

    work: Work
    asked: int


@dataclass(slots=True, repr=False, eq=False)
class Choice:
    """The estimator of a request, and the cap of its level; 0 means no cap.

    All requests of one method, path, schema and level have the same choice.
    """

    estimator: AnyEstimator
    cap: int

    @property
    def dependence(self) -> Dependence:
        return dependence_of(self.estimator)

    def wants_body(self, digest: RequestDigest) -> bool:
        """Return whether the estimate reads the body of this request."""
        return isinstance(self.estimator, Declared) and self.estimator.wants_body(digest)

    def estimate(self, digest: RequestDigest, classification: Classification) -> Estimate | Awaitable[Estimate]:
        """Return the estimate, or an awaitable of it."""
        work = self.estimator(digest, classification)
        return self._cut(work) if isinstance(work, Work) else self._awaited(work)

    async def _awaited(self, work: Awaitable[Work]) -> Estimate:
        return self._cut(await work)

    def _cut(self, work: object) -> Estimate:
        if not isinstance(work, Work):
            raise InvalidValueError(f"the result of {self.estimator!r}", work, "it must be Work")
        return Estimate(cut(work, self.cap), work.width)

    def __repr__(self) -> str:
        return f"<Choice of {self.estimator!r}, at most {self.cap or 'any number of'} seats>"


class Estimation:
    """Estimates by route, by schema or by ``default``; ``caps`` are the maximum seats of one request, by level."""

    __slots__ = ("_by_route", "_by_schema", "_caps", "_default", "_routes", "dependence")

    def __init__(
        self,
        default: AnyEstimator | None = None,
        *,
        by_schema: Mapping[str, AnyEstimator] = _NOTHING,
        routes: Iterable[RouteEstimator] = (),
        caps: Mapping[str, int] = _NO_CAPS,
    ) -> None:
        self._default = Constant(ONE_SEAT) if default is None else default
        self._by_schema = dict(by_schema)
        self._caps = {level: require_integer(f"cap of the level {level!r}", caps[level], least=0) for level in caps}
        ordered = tuple(routes)
        self._by_route = [route.estimator for route in ordered]
        numbered = (_Numbered(one.path, str(place), one.methods) for place, one in enumerate(ordered))
        self._routes = RouteTable(numbered if any(self._by_route) else ())
        self.dependence: Dependence = self._dependence()

    def choose(self, digest: RequestDigest, classification: Classification) -> Choice:
        """Return the estimator of this request, and its cap."""
        # The table is empty unless some route has an estimator, so most configurations pay nothing for it.
        estimator = self._of_route(digest) if len(self._routes) else None
        if estimator is None:
            estimator = self._by_schema.get(classification.schema, self._default)
        return Choice(estimator, self._caps.get(classification.level, 0))

    def estimate(self, digest: RequestDigest, classification: Classification) -> Estimate | Awaitable[Estimate]:
        """Return the estimate of this request, or an awaitable of it."""
        return self.choose(digest, classification).estimate(digest, classification)

    def _of_route(self, digest: RequestDigest) -> AnyEstimator | None:
        resource = self._routes.resolve(digest.method, digest.path).resource
        return None if resource is None else self._by_route[int(resource.resource)]

    def _dependence(self) -> Dependence:
        found = STEADY
        for estimator in (self._default, *self._by_schema.values(), *self._by_route):
            if estimator is not None:
                found |= dependence_of(estimator)
        return found

    def __repr__(self) -> str:
        routes = sum(estimator is not None for estimator in self._by_route)
        return f"<Estimation: {routes} routes, {len(self._by_schema)} schemas, otherwise {self._default!r}>"
