"""The gates that a request has to pass, from the settings of its schema, its route and its level.

The server and the command line both use this module, so that explanations agree with the server.
"""

from dataclasses import replace

from apf_middleware.classification import Classification, RequestDigest, RouteTable
from apf_middleware.config.objects import Configuration, Level, headroom_gate_name

__all__ = ["Gating"]


class Gating:
    """The gates of each request: those of its schema, then those of its route, then those of its level."""

    __slots__ = ("_by_level", "_by_route", "_by_schema", "_routes")

    def __init__(self, configuration: Configuration) -> None:
        self._by_schema = configuration.gates
        # None for exempt levels, to which no gate applies.
        self._by_level = {name: _gates_of(one) for name, one in configuration.levels.items()}
        routes = configuration.server.routes
        self._by_route = [route.gates for route in routes]
        numbered = [replace(route, resource=str(place), subresource="") for place, route in enumerate(routes)]
        self._routes = RouteTable(numbered if any(self._by_route) else ())

    def names(self, digest: RequestDigest, classification: Classification) -> tuple[str, ...]:
        """Return the names of a request's gates, in the order in which they are asked."""
        of_level = self._by_level[classification.level]
        if of_level is None:
            return ()
        names = self._by_schema.get(classification.schema, ())
        if len(self._routes):
            resource = self._routes.resolve(digest.method, digest.path).resource
            if resource is not None:
                names = (*names, *self._by_route[int(resource.resource)])
        return tuple(dict.fromkeys((*names, *of_level))) if names or of_level else ()

    def __repr__(self) -> str:
        return f"<Gating of {len(self._by_schema)} schemas and {len(self._by_route)} routes>"


def _gates_of(level: Level) -> tuple[str, ...] | None:
    if level.exempt:
        return None
    # last, so that a request that passes it gets its seats
    return (*level.gates, headroom_gate_name(level.name)) if level.headroom_percent else level.gates
