"""An ordinary web app's paths as resources, by a table of templates such as ``/tenants/{namespace}/orders/{name}``.

The table is a trie of segments. Literal segments take precedence over parameters, from the left, and a route for
everything below comes last; if the preferred branch has no match, the other one is tried. A node has one parent, so
each is visited at most once, and the cost is at most linear in the size of the table. Verbs are Kubernetes': get and
delete refer to one object, list and deletecollection to many.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from apf_middleware.classification.digest import NO_VALUES, VERB_OF_METHOD, Resolution, Resource, resolve_method
from apf_middleware.classification.paths import ANY_SEGMENT, UNSEEN_END, is_parameter, parse_template
from apf_middleware.classification.text import require_text
from apf_middleware.exceptions import InvalidValueError

__all__ = ["RouteTable", "RouteTemplate"]

_ANY_METHOD = ""
_COLLECTIVE = {"get": "list", "delete": "deletecollection"}


class RouteTemplate(Protocol):
    """The interface of a route; without methods, it is for all of them."""

    @property
    def path(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def methods(self) -> tuple[str, ...]: ...
    @property
    def subresource(self) -> str: ...


class _Target(NamedTuple):
    """The end of a route: its parameters in the order of their segments, and its resource."""

    names: tuple[str, ...]
    resource: str
    subresource: str


class _Node:
    __slots__ = ("any_segment", "below", "here", "literal")

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.any_segment: _Node | None = None
        self.here: dict[str, _Target] = {}  # by method
        self.below: dict[str, _Target] = {}


class RouteTable:
    """Resolves method, path and query by routes; requests that match no route have no resource."""

    __slots__ = ("_root", "_size")

    def __init__(self, routes: Iterable[RouteTemplate]) -> None:
        self._root = _Node()
        self._size = 0
        for route in routes:
            self._add(route)
            self._size += 1

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"RouteTable: {self._size} routes"

    def resolve(self, method: str, path: str, query: Mapping[str, str] = NO_VALUES) -> Resolution:  # noqa: ARG002
        """Return verb and resource, with the signature of `resolve_kubernetes`; the query is ignored."""
        method = method.upper()
        found = _find(self._root, path.split("/")[1:], 0, method, []) if path.startswith("/") else None
        if found is None:
            return resolve_method(method)
        target, values = found
        parameters = {name: value for name, value in zip(target.names, values, strict=True) if name}
        namespace, name = parameters.get("namespace", ""), parameters.get("name", "")
        verb = VERB_OF_METHOD.get(method, method.lower())
        if not name:
            verb = _COLLECTIVE.get(verb, verb)
        resource = Resource(target.resource, "", "", target.subresource, namespace, name)
        return Resolution(verb, resource, parameters or NO_VALUES)

    def _add(self, route: RouteTemplate) -> None:
        require_text(f"resource of the route {route.path!r}", route.resource)
        template = parse_template(route.path)
        node = self._root
        names = []
        for segment in template.segments:
            if segment == ANY_SEGMENT or is_parameter(segment):
                names.append(segment[1:-1])  # the empty string for *
                node.any_segment = node.any_segment or _Node()
                node = node.any_segment
            else:
                node = node.literal.setdefault(segment, _Node())
        targets = node.below if template.below else node.here
        target = _Target(tuple(names), route.resource, route.subresource)
        for method in route.methods or (_ANY_METHOD,):
            if method.upper() in targets:
                raise InvalidValueError(
                    "route", route.path, f"another route covers the same paths with {method.upper() or 'any method'}"
                )
            targets[method.upper()] = target


def _target(targets: dict[str, _Target], method: str) -> _Target | None:
    """Return the target of a method; HEAD has that of GET unless it has its own."""
    found = targets.get(method)
    if found is None and method == "HEAD":
        found = targets.get("GET")
    return found or targets.get(_ANY_METHOD)


_Found = tuple[_Target, list[str]]


def _find(node: _Node, segments: list[str], index: int, method: str, values: list[str]) -> _Found | None:
    if index == len(segments):
        target = _target(node.here, method)
    else:
        segment = segments[index]
        # A line feed alone may be the value of a parameter, or be overlooked (see `visible_path`).
        literal = node.literal.get("" if segment == UNSEEN_END and index + 1 == len(segments) else segment)
        if literal is not None:
            found = _find(literal, segments, index + 1, method, values)
            if found is not None:
                return found
        if node.any_segment is not None and segment:
            found = _find(node.any_segment, segments, index + 1, method, [*values, segment])
            if found is not None:
                return found
        target = None
    target = target or _target(node.below, method)
    return None if target is None else (target, values)
