"""Estimates that are learned from earlier requests of the same route.

For each route (verb and resource, or method and shape of the path) there are two averages: of durations, and of
seat-seconds. They are plain means at first, and later exponential moving averages over about ``span`` observations. The
server measures the costs itself, but clients choose the paths if no routes are declared. The table is therefore
bounded, keys are short, and the least recently seen route is removed first.

Seats are learned in one of two ways. From durations: a request gets one seat for each ``duration_per_seat_ns``. Or from
widths: the seats that were charged on average, for apps that correct the seats of their requests. Seats are not learned
from seat-seconds, because wider requests have more of them, so that estimates would grow without end.
"""

import re
from collections import OrderedDict
from dataclasses import KW_ONLY, dataclass
from math import ceil
from typing import ClassVar, Final

from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.estimation.base import ONE_SEAT, Dependence, plain_work
from apf_middleware.estimation.declared import require_most_seats
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Work
from apf_middleware.fairqueuing.work import NS_PER_UNIT, round_half_away
from apf_middleware.frozen import frozen

__all__ = ["LONGEST_ROUTE", "Learned", "LearnedCosts", "LearnedCostsSnapshot", "RouteCosts", "route_key"]

LONGEST_ROUTE: Final = 200
"""The maximum length of the key of a learned route, in characters."""

_MOST_SEGMENTS: Final = 8
# Segments that don't match are taken for names of single objects: numbers, addresses, tokens.
_NAME: Final = re.compile(r"v[0-9]{1,2}|[^0-9%@:,;=+~]{0,24}")
_DEVIATIONS: Final = 6  # of an exponential distribution, 3 % of the work is in requests that last longer


def route_key(digest: RequestDigest) -> str | None:
    """Return the key that requests of one kind have in common; None when it would be too long.

    In a path without a resource, segments that look like the name of one object are replaced.
    """
    resource = digest.resource
    if resource is None:
        key = f"{digest.method} {_shape(digest.path)}"
    else:
        kind = resource.resource if not resource.api_group else f"{resource.resource}.{resource.api_group}"
        key = f"{digest.verb} {kind}/{resource.subresource}" if resource.subresource else f"{digest.verb} {kind}"
    return key if len(key) <= LONGEST_ROUTE else None


def _shape(path: str) -> str:
    # one part more than is kept: the rest of a long path
    segments = path.split("/", _MOST_SEGMENTS + 1)
    shaped = [segment if _NAME.fullmatch(segment) else "*" for segment in segments[: _MOST_SEGMENTS + 1]]
    return "/".join(shaped)


@dataclass(slots=True, repr=False)
class RouteCosts:
    """The averages of one route: durations and their deviations in nanoseconds, work in 1e-8 seat-seconds."""

    count: int = 0
    duration_ns: float = 0.0
    work: float = 0.0
    deviation_ns: float = 0.0

    @property
    def seats(self) -> float:
        """The average number of seats that a request held while it ran."""
        return self.work * NS_PER_UNIT / self.duration_ns if self.duration_ns else 1.0

    @property
    def long_ns(self) -> int:
        """A duration that few requests exceed: the mean and six mean deviations."""
        return int(self.duration_ns + _DEVIATIONS * self.deviation_ns)

    def __repr__(self) -> str:
        return f"<RouteCosts of {self.count}: {self.duration_ns / 1e6:.3f} ms on {self.seats:.2f} seats>"


@frozen
class LearnedCostsSnapshot:
    """Count, duration in nanoseconds and seats by route, the most work first, and the number of routes removed."""

    routes: tuple[tuple[str, int, int, float], ...]
    forgotten: int


class LearnedCosts:
    """Averages of at most ``most_routes`` routes, which are used after ``enough`` observations.

    Paths may have names of objects that look like those of routes, so that hardly any route is seen twice. So there are
    averages of all routes that were new, too, for what is better guessed roughly than not at all (see `expect`).
    """

    __slots__ = ("_costs", "_enough", "_most_routes", "_new", "_weight", "forgotten")

    def __init__(self, most_routes: int = 1024, *, span: int = 50, enough: int = 3) -> None:
        self._costs: OrderedDict[str, RouteCosts] = OrderedDict()
        self._new = RouteCosts()  # of all routes together, while there were too few observations of each
        self.forgotten: int = 0
        self.adopt(most_routes, span=span, enough=enough)

    def adopt(self, most_routes: int, *, span: int, enough: int) -> None:
        """Put other settings in force; what has been learned stays, of the routes that were seen last."""
        self._most_routes = require_integer("most_routes", most_routes, least=1)
        self._weight = 2 / (require_integer("span", span, least=1) + 1)
        self._enough = require_integer("enough", enough, least=1)
        while len(self._costs) > self._most_routes:
            self._costs.popitem(last=False)
            self.forgotten += 1

    def __len__(self) -> int:
        return len(self._costs)

    def observe(self, route: str | None, duration_ns: int, work: int) -> None:
        """Learn from the duration and the work of a request of ``route``; do nothing if that is None."""
        if route is None:
            return
        if duration_ns < 0 or work < 0:
            raise InvalidValueError("duration_ns and work", (duration_ns, work), "they must be at least 0")
        costs = self._costs.get(route)
        if costs is None:
            costs = self._costs[route] = RouteCosts()
            # The new route is the last, so it is never the one that is removed.
            if len(self._costs) > self._most_routes:
                self._costs.popitem(last=False)
                self.forgotten += 1
        else:
            self._costs.move_to_end(route)
        if costs.count < self._enough:
            self._add(self._new, duration_ns, work)
        self._add(costs, duration_ns, work)

    def _add(self, costs: RouteCosts, duration_ns: int, work: int) -> None:
        """Add an observation to averages."""
        costs.count = count = costs.count + 1
        # A plain mean of the first observations, about half of ``span``; from then on older ones fade exponentially.
        weight = max(self._weight, 1 / count)
        error = duration_ns - costs.duration_ns
        costs.duration_ns += weight * error
        if count > 1:  # the first one has nothing to deviate from
            costs.deviation_ns += max(self._weight, 1 / (count - 1)) * (abs(error) - costs.deviation_ns)
        costs.work += weight * (work - costs.work)

    def guess(self, route: str | None) -> RouteCosts | None:
        """Return the expected work of a request of this route; None while too little is known."""
        costs = self._costs.get(route) if route is not None else None
        return costs if costs is not None and costs.count >= self._enough else None

    def expect(self, route: str | None) -> RouteCosts | None:
        """Return what `guess` does; for a route that isn't known yet, the averages of all routes that were new."""
        found = self.guess(route)
        if found is None and route is not None and self._new.count >= self._enough:
            return self._new
        return found

    def snapshot(self, most: int = 100) -> LearnedCostsSnapshot:
        """Return the routes with the most work on average, at most ``most`` of them."""
        ordered = sorted(self._costs.items(), key=lambda one: (-one[1].work, one[0]))[:most]
        routes = [(route, costs.count, int(costs.duration_ns), costs.seats) for route, costs in ordered]
        return LearnedCostsSnapshot(tuple(routes), self.forgotten)

    def check(self) -> None:
        """Check that the bounds hold."""
        if len(self._costs) > self._most_routes:
            raise InvalidValueError("routes", len(self._costs), f"there must be at most {self._most_routes}")
        for route, costs in self._costs.items():
            if not costs.count or min(costs.duration_ns, costs.work) < 0 or len(route) > LONGEST_ROUTE:
                raise InvalidValueError(f"costs of {route!r}", costs, "they must have observations and be positive")

    def __repr__(self) -> str:
        return f"<LearnedCosts: {len(self)} routes of at most {self._most_routes}>"


@dataclass(slots=True, repr=False, eq=False)
class Learned:
    """An estimator by the ``costs`` of a request's route; ``otherwise`` while there are too few observations.

    With ``duration_per_seat_ns``, a request gets one seat for each such part of its expected duration, rounded up;
    without it, the average width.
    """

    costs: LearnedCosts
    _: KW_ONLY
    duration_per_seat_ns: int | None = None
    most_seats: int = 10
    otherwise: Work = ONE_SEAT

    dependence: ClassVar[Dependence] = Dependence(changing=True)

    def __post_init__(self) -> None:
        if self.duration_per_seat_ns is not None:
            require_integer("duration_per_seat_ns", self.duration_per_seat_ns, least=1)
        require_most_seats(self.most_seats)

    def __call__(self, digest: RequestDigest, classification: Classification) -> Work:  # noqa: ARG002
        guess = self.costs.guess(route_key(digest))
        if guess is None:
            return self.otherwise
        per_seat = self.duration_per_seat_ns
        seats = round_half_away(guess.seats) if per_seat is None else ceil(guess.duration_ns / per_seat)
        return plain_work(min(max(seats, 1), self.most_seats))

    def __repr__(self) -> str:
        return f"<Learned: up to {self.most_seats} seats, by {self.costs!r}>"
