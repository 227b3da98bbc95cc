"""Configurations to compare with: a server without this package, or one that behaves as Kubernetes does."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from apf_middleware.classification import FlowSchema
from apf_middleware.classification.rules import Conjunction
from apf_middleware.config import Configuration, Level, Queuing
from apf_middleware.fairqueuing.sharing.limits import LevelShares

__all__ = ["VARIANTS", "variant"]

_EVERYBODY = (Conjunction(),)
_MOST_WAITING = 1_000_000


def _only(configuration: Configuration, level: Level) -> Configuration:
    """Return a configuration in which all requests belong to this level and to one flow."""
    schemas = (FlowSchema("catch-all", level.name, 1, _EVERYBODY),)
    server = replace(configuration.server, backstops="kubernetes")
    return Configuration(MappingProxyType({level.name: level}), schemas, server, configuration.estimates)


def _unprotected(configuration: Configuration) -> Configuration:
    return _only(configuration, Level("everybody", LevelShares(0, exempt=True)))


def _first_come(configuration: Configuration) -> Configuration:
    limit = configuration.server.request_timeout_ns
    queuing = Queuing(queues=1, hand_size=1, queue_length_limit=_MOST_WAITING)
    return _only(configuration, Level("everybody", LevelShares(100), queuing, wait_limit_ns=limit))


def _max_in_flight(configuration: Configuration) -> Configuration:
    return _only(configuration, Level("everybody", LevelShares(100)))


def _kubernetes(configuration: Configuration) -> Configuration:
    server = replace(
        configuration.server, borrowing="periodic", discipline="equal-serial", strict_upstream=True, fleet=None
    )
    return replace(configuration, server=server)


VARIANTS: Mapping[str, Callable[[Configuration], Configuration]] = {
    "none": _unprotected,
    "fifo": _first_come,
    "max-in-flight": _max_in_flight,
    "kubernetes": _kubernetes,
    "own": lambda configuration: configuration,
}
"""Variants by name: no limit at all; the same seats with one queue, as a semaphore; the same seats without a queue;
the same levels with Kubernetes' discipline, borrowing and known defects, without a fleet; the configuration as it is.
"""


def variant(name: str, configuration: Configuration) -> Configuration:
    """Return the variant of ``configuration`` with this name."""
    return VARIANTS[name](configuration)
