"""The last step of a configuration: it builds limits in seats, settings of queue sets, a resolver and a classifier.

The server, the simulator and the command line all use these functions, so they agree about a configuration.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from apf_middleware.classification import Classifier, RequestDigest, RouteTable, resolve_kubernetes
from apf_middleware.classification.digest import Resolver, resolve_method
from apf_middleware.config.covering import take_everything
from apf_middleware.config.criticality import CriticalitySettings
from apf_middleware.config.estimation import Sources, derive_estimation
from apf_middleware.config.objects import Configuration, Level
from apf_middleware.criticality import Criticality
from apf_middleware.estimation import Estimation, seat_cap
from apf_middleware.fairqueuing import QueueSetSettings, flow_hash
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from apf_middleware.fairqueuing.sharing.limits import LevelLimits, limits_from_shares
from apf_middleware.fairqueuing.sharing.proportion import divide
from apf_middleware.propagation.criticality_reader import CriticalityReader

__all__ = [
    "derive_classifier",
    "derive_criticality",
    "derive_hierarchy",
    "derive_limits",
    "derive_resolver",
    "derive_seat_caps",
    "derive_settings",
    "derive_work",
]


def derive_limits(configuration: Configuration, seats: int | None = None) -> dict[str, LevelLimits]:
    """Return nominal, min and max of each level; absolute numbers take precedence over shares.

    ``seats`` are those of the server, by default those that it starts with.

    Children divide the seats of their parent by their shares. Where seats are lent at each dispatch, mins that come
    from proportions are no more than the whole seats of a level's exact part, and leave a seat for levels without a
    min.
    """
    server = configuration.server
    strict = server.strict_upstream
    seats = server.total if seats is None else seats
    found = _limits_among(seats, configuration, None, strict=strict)
    parts = {name: Fraction(limits.nominal) for name, limits in found.items()}
    if not strict and server.borrowing == "immediate" and not _needs_fallback(configuration):
        rest = configuration.fallback.level
        if configuration.levels[rest].min_seats is None and rest in found:
            # A min is never lent, so a min that no request can use would be lost to the other levels.
            found[rest] = replace(found[rest], min=0)
    if not strict and server.borrowing == "immediate":
        found = _leave_a_seat(seats, found, configuration.levels)
        found, parts = _round_mins_down(Fraction(seats), found, configuration.levels)
    for parent in sorted(configuration.parents):
        limits = found[parent]
        children = _limits_among(limits.nominal, configuration, parent, strict=strict)
        children, _ = _round_mins_down(parts[parent], children, configuration.levels)
        for name, level in configuration.levels.items():
            if level.parent == parent and level.max_seats is None and level.shares.borrowing_percent is None:
                children[name] = replace(children[name], max=max(limits.max, children[name].nominal))
        found |= children
    return {name: found[name] for name in configuration.levels}


def _needs_fallback(configuration: Configuration) -> bool:
    """Return whether requests may reach the level of the fallback.

    They can't if the other schemas take all requests, to other levels, and requests can't name their queue.
    """
    fallback = configuration.fallback if configuration.schemas else None
    if fallback is None or fallback.level not in configuration.levels or configuration.lets_name_queues:
        return True
    others = [schema for schema in configuration.schemas if schema is not fallback]
    if any(schema.level == fallback.level for schema in others):
        return True
    return not take_everything(others)


def _limits_among(
    seats: int, configuration: Configuration, parent: str | None, *, strict: bool
) -> dict[str, LevelLimits]:
    """Return the limits of all levels with this ``parent``, which divide ``seats`` among themselves."""
    levels = {name: level for name, level in configuration.levels.items() if level.parent == parent}
    limits = limits_from_shares(seats, {name: one.shares for name, one in levels.items()}, strict_upstream=strict)
    return {name: _with_numbers(level, limits[name]) for name, level in levels.items()}


def _leave_a_seat(seats: int, limits: Mapping[str, LevelLimits], levels: Mapping[str, Level]) -> dict[str, LevelLimits]:
    """Reduce mins on a server with so few seats that levels without a min would never get a seat.

    The mins of levels with the fewest shares are reduced first. Absolute mins are kept; if they add up to all seats,
    nothing is reduced.
    """
    found = dict(limits)
    if sum(one.min for name, one in found.items() if levels[name].min_seats is not None) >= seats:
        return found
    while True:
        wanted = 1 if any(one.nominal and not one.min and not levels[name].exempt for name, one in found.items()) else 0
        givers = [name for name, one in found.items() if one.min and levels[name].min_seats is None]
        if not givers or sum(one.min for one in found.values()) <= seats - wanted:
            return found
        # levels with equal shares are ordered by name, so that all workers compute the same limits
        name = min(givers, key=lambda one: (levels[one].shares.shares, one))
        found[name] = replace(found[name], min=found[name].min - 1)


def _round_mins_down(
    seats: Fraction, limits: Mapping[str, LevelLimits], levels: Mapping[str, Level]
) -> tuple[dict[str, LevelLimits], dict[str, Fraction]]:
    """Keep the mins that come from shares within the whole seats of each level's exact part; return the parts too.

    Nominal seats are rounded up. If mins were rounded up too, a level with an exact part of 1.3 seats would always have
    2, and the levels would not be served in proportion to their shares. A level without queues keeps at least one seat,
    if it has any: its requests can't wait for a turn.
    """
    claims = {}
    for name, one in limits.items():
        level = levels[name]
        least = (1 if one.min and level.queuing is None else 0) if level.min_seats is None else level.min_seats
        most = int(seats) + 1 if level.max_seats is None else level.max_seats
        claims[name] = level.shares.shares, least, max(least, most)
    parts = dict(zip(claims, divide(seats, list(claims.values())), strict=True))
    if sum(least for _, least, _ in claims.values()) >= seats:
        return dict(limits), parts
    found = {name: replace(one, min=min(one.min, int(parts[name]))) for name, one in limits.items()}
    return found | {name: one for name, one in limits.items() if levels[name].min_seats is not None}, parts


def derive_hierarchy(configuration: Configuration, seats: int | None = None) -> Hierarchy:
    """Return the parents, priorities and shares of levels, as `derive_limits` does."""
    parents, levels = configuration.parents, configuration.levels
    limits = derive_limits(configuration, seats) if parents else {}
    return Hierarchy(
        {name: limits[name] for name in parents},
        {name: level.parent for name, level in levels.items() if level.parent is not None},
        {name: level.priority for name, level in levels.items() if level.priority},
        {name: level.shares for name, level in levels.items()},
    )


def _with_numbers(level: Level, limits: LevelLimits) -> LevelLimits:
    least = limits.min if level.min_seats is None else level.min_seats
    most = limits.max if level.max_seats is None else level.max_seats
    # `LevelLimits` requires min <= nominal <= max
    nominal = min(max(limits.nominal, least), most)
    return replace(limits, nominal=nominal, min=min(least, nominal), max=most)


def derive_settings(level: Level, limits: LevelLimits) -> QueueSetSettings:
    """Return the settings of a level's queue set; the initial limit is the level's nominal seats."""
    if level.exempt:
        return QueueSetSettings.without_limit(limits.nominal)
    if level.queuing is None:
        return QueueSetSettings.without_queues(limits.nominal)
    queuing = level.queuing
    return QueueSetSettings(
        limits.nominal,
        queuing.queues,
        queuing.hand_size,
        queuing.queue_length_limit,
        fifo=level.dequeue_strategy == "fifo",
        exact=queuing.exact,
        backfill=queuing.backfill,
    )


def derive_resolver(configuration: Configuration) -> Resolver:
    """Return the function that turns paths into verbs and resources."""
    if configuration.server.resolver == "kubernetes":
        return resolve_kubernetes
    routes = configuration.server.routes
    return RouteTable(routes).resolve if routes else resolve_method


def derive_classifier(configuration: Configuration) -> Classifier:
    """Return the classifier of the configuration's schemas."""
    return Classifier(
        configuration.schemas,
        hash_flow=flow_hash,
        fallback=configuration.fallback,
        masters_fallback=configuration.masters_fallback,
        flowless_levels=configuration.flowless_levels,
    )


def derive_criticality(configuration: Configuration) -> Callable[[RequestDigest], str]:
    """Return the function that tells the criticality of a request, of which no proxy is known, by its digest."""
    settings = configuration.server.criticality or CriticalitySettings(headers={})
    reader, trusted = CriticalityReader(settings.headers, Criticality.of(settings.usual)), frozenset(settings.groups)

    def find(digest: RequestDigest) -> str:
        headers = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in digest.headers.items()
        ]
        return reader.read(headers, is_trusted=not trusted.isdisjoint(digest.identity.groups)).key

    return find


def derive_work(configuration: Configuration, sources: Sources) -> Estimation:
    """Return the estimation of how many seats requests take."""
    return derive_estimation(
        configuration.server.estimation,
        schemas=configuration.estimates,
        routes=configuration.server.routes,
        caps=derive_seat_caps(configuration),
        sources=sources,
    )


def derive_seat_caps(configuration: Configuration) -> dict[str, int]:
    """Return the most seats that a request may take at each level, with the server's largest total; 0 for any.

    A level without queues has no cap.
    """
    limits = derive_limits(configuration, configuration.server.largest_total)
    return {
        name: seat_cap(limits[name].nominal, level.queuing.hand) if level.queuing else 0
        for name, level in configuration.levels.items()
    }
