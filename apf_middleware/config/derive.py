"""What follows from a configuration: limits in seats, settings of queue sets, a resolver and a classifier.

The one place where a configuration meets classification and fair queuing; the server, the simulator and the command
line all take it from here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from apf_middleware.classification import Classifier, FlowSchema, Resolution, RouteTable, resolve_kubernetes
from apf_middleware.config.objects import Configuration, Level
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import QueueSetSettings, flow_hash
from apf_middleware.fairqueuing.allocation import LevelLimits, limits_from_shares

__all__ = ["Resolver", "derive_classifier", "derive_limits", "derive_resolver", "derive_settings"]

Resolver = Callable[[str, str, Mapping[str, str]], Resolution]
"""From method, path and query to verb and resource."""

_FALLBACKS: Final = ("catch-all", "non-top-backstop")  # Kubernetes' and the KEP's schema for what nobody else takes


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
    return QueueSetSettings(limits.nominal, queuing.queues, queuing.hand_size, queuing.queue_length_limit)


def derive_resolver(configuration: Configuration) -> Resolver:
    """How paths are understood."""
    if configuration.server.resolver == "kubernetes":
        return resolve_kubernetes
    return RouteTable(configuration.server.routes).resolve


def derive_classifier(configuration: Configuration, *, remembered: int = 4096) -> Classifier:
    """The classifier; flows don't matter where nothing queues, or in one queue only."""
    flowless = [
        name for name, level in configuration.levels.items() if level.queuing is None or level.queuing.queues == 1
    ]
    return Classifier(
        configuration.schemas,
        hash_flow=flow_hash,
        fallback=_fallback(configuration),
        flowless_levels=flowless,
        remembered=remembered,
    )


def _fallback(configuration: Configuration) -> FlowSchema:
    schemas = {schema.name: schema for schema in configuration.schemas}
    for name in _FALLBACKS:
        if name in schemas:
            return schemas[name]
    rule = f"there must be a schema for what no other takes: {' or '.join(_FALLBACKS)}"
    raise InvalidValueError("schemas", sorted(schemas), rule)
