"""The part of a configuration that can be tried beside the one in force, and what its report can't say."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from apf_middleware.config import Configuration
from apf_middleware.config.estimation import ComputedEstimate

__all__ = ["find_caveats", "followed_part"]

_ALWAYS: Final = (
    "Durations are those of the real server. They depend on what runs beside a request, so under another configuration "
    "they would be others. Clients give up and try again as they do there."
)


def followed_part(configuration: Configuration) -> Configuration:
    """Return the configuration without gates and without a fleet, which act outside of this process."""
    server = configuration.server
    routes = tuple(replace(route, gates=()) for route in server.routes)
    levels = {
        name: replace(level, gates=(), headroom_percent=0) if not level.exempt else level
        for name, level in configuration.levels.items()
    }
    return replace(configuration, levels=levels, gates={}, server=replace(server, gates=(), routes=routes, fleet=None))


def find_caveats(real: Configuration, tried: Configuration, *, classify_only: bool = False) -> tuple[str, ...]:
    """Return what the report about the configuration that is ``tried`` can't say, beside the ``real`` one."""
    return tuple(_caveats(real, tried, classify_only=classify_only))


def _caveats(real: Configuration, tried: Configuration, *, classify_only: bool) -> Iterator[str]:
    before, after = real.server, tried.server
    if (before.authentication, before.trusted_proxies) != (after.authentication, after.trusted_proxies):
        yield "Callers and trusted proxies are those of the configuration in force."
    if classify_only:
        return
    yield _ALWAYS
    if tried.has_gates:
        yield "Gates and headroom are left out: no request is parked."
    if tried.elastic_levels:
        yield "Elastic levels have all of their seats, however late the event loop is."
    if after.seat_bounds is not None:
        yield "The number of seats adapts to the durations of the real server, which it doesn't change."
    if before.fleet is not None:
        yield "Of the fleet's seats, this member has the part that the configuration in force grants it."
    elif after.fleet is not None:
        yield "The fleet is left out: this process has all seats."
    if any(isinstance(one, ComputedEstimate) for one in _estimates(tried)):
        yield "Estimates by functions of the app are those of the configuration in force."
    if before.bodies != after.bodies or before.streams != after.streams:
        yield "Bodies and streams are received and limited as in the configuration in force."


def _estimates(configuration: Configuration) -> Iterator[object]:
    yield configuration.server.estimation.default
    yield from configuration.estimates.values()
    yield from (route.estimate for route in configuration.server.routes)
