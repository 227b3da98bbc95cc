"""What follows from a configuration: limits in seats, settings of queue sets, a resolver and a classifier.

The one place where a configuration meets classification and fair queuing; the server, the simulator and the command
line all take it from here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from apf_middleware.classification import Classifier, Resolution, RouteTable, resolve_kubernetes
from apf_middleware.config.estimation import Sources, derive_caps, derive_estimation
from apf_middleware.config.objects import Configuration, Level
from apf_middleware.estimation import Estimation
from apf_middleware.fairqueuing import QueueSetSettings, flow_hash
from apf_middleware.fairqueuing.allocation import LevelLimits, limits_from_shares

__all__ = ["Resolver", "derive_classifier", "derive_limits", "derive_resolver", "derive_settings", "derive_work"]

Resolver = Callable[[str, str, Mapping[str, str]], Resolution]
"""From method, path and query to verb and resource."""


def derive_limits(configuration: Configuration) -> dict[str, LevelLimits]:
    """Nominal, min and max seats of each level; numbers that it names go before what its shares come to."""
    shares = {name: level.shares for name, level in configuration.levels.items()}
    limits = limits_from_shares(
        configuration.server.seats, shares, strict_upstream=configuration.server.strict_upstream
    )
    return {name: _with_numbers(level, limits[name]) for name, level in configuration.levels.items()}


def _with_numbers(level: Level, limits: LevelLimits) -> LevelLimits:
    least = limits.min if level.min_seats is None else level.min_seats
    most = limits.max if level.max_seats is None else level.max_seats
    nominal = min(max(limits.nominal, least), most)
    return replace(limits, nominal=nominal, min=min(least, nominal), max=most)


def derive_settings(level: Level, limits: LevelLimits) -> QueueSetSettings:
    """The settings of a level's queue set, which begins with its nominal seats."""
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
        exact=queuing.exact,
        backfill=queuing.backfill,
    )


def derive_resolver(configuration: Configuration) -> Resolver:
    """How paths are understood."""
    if configuration.server.resolver == "kubernetes":
        return resolve_kubernetes
    return RouteTable(configuration.server.routes).resolve


def derive_classifier(configuration: Configuration, *, remembered: int = 4096) -> Classifier:
    """The classifier. `Configuration` knows what takes the rest, and where flows don't matter."""
    return Classifier(
        configuration.schemas,
        hash_flow=flow_hash,
        fallback=configuration.fallback,
        masters_fallback=configuration.masters_fallback,
        flowless_levels=configuration.flowless_levels,
        remembered=remembered,
    )


def derive_work(configuration: Configuration, sources: Sources) -> Estimation:
    """How many seats requests take."""
    hands = {name: level.queuing.hand if level.queuing else None for name, level in configuration.levels.items()}
    return derive_estimation(
        configuration.server.estimation,
        schemas=configuration.estimates,
        routes=configuration.server.routes,
        caps=derive_caps(hands, derive_limits(configuration)),
        sources=sources,
    )
