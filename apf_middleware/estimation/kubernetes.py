"""Estimates for a Kubernetes-like API, as upstream makes them.

A list takes memory, so its seats follow from the number and size of the objects that it reads. A write takes one seat,
and more seats for some milliseconds after its reply, for the events that are sent to its watchers. Any other request
takes one seat. Callables give the numbers of objects and of watchers.

Upstream estimates by size (the default since 1.34) or by number of objects alone: `ListSettings.by_size` chooses.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from math import ceil, isfinite
from typing import ClassVar, Final, NamedTuple

from apf_middleware.classification import Classification, RequestDigest, Resource
from apf_middleware.estimation.base import ONE_SEAT, Dependence, plain_work
from apf_middleware.estimation.objects import Inventory, ObjectStats
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Work, duration_per_seat, seat_seconds
from apf_middleware.frozen import frozen

__all__ = ["KubernetesEstimator", "ListSettings", "MutatingSettings", "Watchers", "list_seats", "mutating_work"]

Watchers = Callable[[str, Resource], int]
"""A function from verb and resource to the number of watches that get an event when such a request succeeds."""

_MUTATING: Final = frozenset({"create", "update", "patch", "delete"})
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_UNKNOWN_COUNT: Final = 10**9  # more than any cap allows, for objects of any size


@frozen
class ListSettings:
    """Constants of lists and watches. If ``most_seats`` is None, upstream's limit holds: 100 by size, 10 by number.

    ``consistent_reads`` says whether a cache may answer a list without a resource version, ``watch_list`` whether a
    watch that begins with all objects counts as a list of them instead of one seat.
    """

    by_size: bool = True
    watch_list: bool = True
    consistent_reads: bool = False
    least_seats: int = 1
    most_seats: int | None = None
    objects_per_seat: int = 100
    bytes_per_seat: int = 100_000
    most_cache_bytes: int = 1_000_000
    largest_object: int = 1_500_000

    def __post_init__(self) -> None:
        for name in ("least_seats", "objects_per_seat", "bytes_per_seat", "most_cache_bytes", "largest_object"):
            require_integer(name, getattr(self, name), least=1)
        if self.most_seats is not None:
            require_integer("most_seats", self.most_seats, least=1)

    @property
    def limit(self) -> int:
        """The most seats of one list."""
        return self.most_seats or (100 if self.by_size else 10)


@frozen
class MutatingSettings:
    """Constants of writes: the number of watches that one seat serves, and the time for which it is taken."""

    enabled: bool = True
    watches_per_seat: float = 10.0
    event_ns: int = 5_000_000
    most_seats: int = 10

    def __post_init__(self) -> None:
        per_seat = self.watches_per_seat
        if isinstance(per_seat, bool) or not isinstance(per_seat, int | float):
            raise InvalidValueError("watches_per_seat", per_seat, "it must be a number")
        if not (isfinite(per_seat) and per_seat >= 1):
            raise InvalidValueError("watches_per_seat", per_seat, "it must be at least 1")
        require_integer("event_ns", self.event_ns, least=0)
        require_integer("most_seats", self.most_seats, least=1)


class _Options(NamedTuple):
    """The options in the query of a list."""

    limit: int
    continued: bool
    selects: bool
    version: str
    match: str
    initial_events: bool


def _options(query: Mapping[str, str]) -> _Options | None:
    """Return the options, or None if a number is malformed. A flag is true unless its value is false or 0."""
    limit = _integer(query.get("limit"))
    if limit is None or _integer(query.get("timeoutSeconds")) is None:
        return None
    return _Options(
        limit,
        bool(query.get("continue")),
        bool(query.get("labelSelector") or query.get("fieldSelector")),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        query.get("sendInitialEvents", "false").lower() not in {"false", "0"},
    )


def _integer(text: str | None) -> int | None:
    if text is None:
        return 0
    value = int(text) if _INTEGER.fullmatch(text) else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def _is_from_cache(options: _Options, settings: ListSettings) -> bool:
    """Return whether a cache answers this list, which is cheaper than the store."""
    if options.match:
        return options.match == "NotOlderThan"
    if options.continued:
        return False
    if options.version == "":
        return settings.consistent_reads
    return options.version == "0" or options.limit <= 0


def list_seats(
    query: Mapping[str, str],
    stats: Callable[[], ObjectStats | None],
    settings: ListSettings,
    *,
    watch: bool = False,
    single: bool = False,
) -> int:
    """Return the seats of a list, or of a ``watch``; ``single`` means one object by its name.

    ``stats`` is called only if its result matters. It returns None if the objects are unknown, for example because
    another server stores them; then the list is cheap here.
    """
    options = _options(query)
    if options is None:
        # as upstream, although such a request will fail
        return settings.limit
    if watch and not options.initial_events and options.version not in ("", "0"):
        return settings.least_seats
    found = stats()
    if found is None:
        return settings.least_seats
    cached = watch or _is_from_cache(options, settings)
    count = found.count if found.is_certain else _UNKNOWN_COUNT
    limited = min(count, options.limit) if options.limit > 0 else count
    if settings.by_size:
        objects = 1 if single else limited if cached or not options.selects else max(limited, count // 2)
        # If count or size is unknown, objects are charged as large as the largest one that the store accepts.
        size = (
            found.average_bytes if found.is_certain and (found.average_bytes or not count) else settings.largest_object
        )
        taken = min(objects * size, settings.most_cache_bytes) if cached else objects * size
        seats = -(-taken // settings.bytes_per_seat)
    else:
        # The store reads what it selects from and returns what it found: both count.
        objects = 1 if single else count if cached else (count if options.selects else limited) + limited
        seats = -(-objects // settings.objects_per_seat)
    return min(max(seats, settings.least_seats), settings.limit)


def mutating_work(watchers: int, settings: MutatingSettings) -> Work:
    """Return one seat, and final seats in proportion to ``watchers``.

    If this is more than ``most_seats``, these are taken for a longer time instead.
    """
    # truncated as upstream does it: with 10.5 watches for each seat, 10 watches are enough
    if not settings.enabled or watchers < int(settings.watches_per_seat):
        return ONE_SEAT
    seats = ceil(watchers / settings.watches_per_seat)
    final_work = seat_seconds(seats, settings.event_ns)
    seats = min(seats, settings.most_seats)
    return Work(1, seats, duration_per_seat(final_work, seats))


@frozen
class KubernetesEstimator:
    """An estimator by verb: lists and watches, writes, and the rest.

    Results change with objects and watchers, and depend on the query. ``on_watchers`` is called with the number of
    watchers of each write.
    """

    inventory: Inventory
    watchers: Watchers
    listing: ListSettings = field(default_factory=ListSettings)
    mutating: MutatingSettings = field(default_factory=MutatingSettings)
    on_watchers: Callable[[Classification, int], None] = lambda *_: None

    dependence: ClassVar[Dependence] = Dependence(query=True, changing=True)

    def __call__(self, digest: RequestDigest, classification: Classification) -> Work:
        resource, verb = digest.resource, digest.verb
        if resource is not None:
            if verb in _MUTATING:
                return self._mutating(verb, resource, classification)
            if verb == "list" or (verb == "watch" and self.listing.watch_list):
                seats = list_seats(
                    digest.query,
                    lambda: self.inventory(resource),
                    self.listing,
                    watch=verb == "watch",
                    single=bool(resource.name),
                )
                return plain_work(seats)
        return plain_work(self.listing.least_seats)

    def _mutating(self, verb: str, resource: Resource, classification: Classification) -> Work:
        if resource.resource == "serviceaccounts" and resource.subresource == "token":
            return ONE_SEAT  # nothing is stored, so there is no event
        watchers = self.watchers(verb, resource)
        self.on_watchers(classification, watchers)
        return mutating_work(watchers, self.mutating)
