"""Resolution of simulated requests to level, flow and work, as by a server.

Resolver, classifier and estimators are those of production, built from the configuration as the middleware builds them.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from apf_middleware.classification import Classification, Identity, RequestDigest
from apf_middleware.classification.paths import visible_path
from apf_middleware.classification.query import QueryParameters
from apf_middleware.config import Configuration
from apf_middleware.config.build import derive_classifier, derive_criticality, derive_resolver, derive_work
from apf_middleware.config.estimation import Sources
from apf_middleware.config.objects import headroom_gate_name
from apf_middleware.copying import Value
from apf_middleware.estimation import Choice, Estimate, route_key
from apf_middleware.estimation.base import cut, plain_work
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work, flow_hash
from apf_middleware.runtime import Controller, Destination, QueueNaming, UnknownQueue

__all__ = ["MOST_KNOWN", "DestinationResolver", "RecordedPlace", "RequestTemplate"]

MOST_KNOWN = 50_000
"""The number of kinds of requests that are remembered; others are resolved anew each time."""


class RecordedPlace(NamedTuple):
    """The schema, level and flow of a recorded request, and the weight of the flow."""

    schema: str
    level: str
    flow: str
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class RequestTemplate(Value):
    """A request as a client sends it; header names are in lower case. Compared by identity, so a fast key.

    A recorded request may have a ``place``, which then isn't found by the rules; ``worker`` is the number of the
    process that has served it.
    """

    identity: Identity
    method: str = "GET"
    path: str = "/"
    host: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    client_address: str = ""
    place: RecordedPlace | None = None
    final_seats: int = 0
    linger_ns: int = 0
    worker: int | None = None


class _Resolved(NamedTuple):
    digest: RequestDigest
    choice: Choice
    destination: Destination


class DestinationResolver:
    """Resolves requests at one server."""

    def __init__(self, configuration: Configuration, controller: Controller) -> None:
        sources = Sources(controller.costs)
        self._controller = controller
        self._resolve = derive_resolver(configuration)
        self._classify = derive_classifier(configuration).classify
        self._naming = QueueNaming(configuration, _trusts_nothing) if configuration.lets_name_queues else None
        self._estimation = derive_work(configuration, sources)
        self._find_criticality = derive_criticality(configuration)
        self._learns = self._estimation.dependence.changing or configuration.learns_routes
        self._flowless = configuration.flowless_levels
        self._headrooms = frozenset(name for name, level in configuration.levels.items() if level.headroom_percent)
        self._resolved: dict[tuple[RequestTemplate, int], _Resolved] = {}

    def destination(self, template: RequestTemplate, seats: int = 0) -> Destination:
        """Return the destination of a request that takes ``seats``; if they are 0, the configuration estimates them."""
        key = (template, seats)
        known = self._resolved.get(key)
        if known is None:
            known = self._resolve_new(template, seats)
            # Recorded traffic may have any number of kinds; those beyond the bound are resolved each time.
            if len(self._resolved) < MOST_KNOWN:
                self._resolved[key] = known
        elif not (seats or known.choice.dependence.is_steady):  # the estimate may have changed since
            return self._estimated(known)
        return known.destination

    def _resolve_new(self, template: RequestTemplate, seats: int) -> _Resolved:
        encoded, _, query = template.path.partition("?")
        path, parameters = visible_path(unquote(encoded)), QueryParameters.of_text(query)
        resolution = self._resolve(template.method, path, parameters)
        digest = RequestDigest(
            identity=template.identity,
            verb=resolution.verb,
            path=path,
            method=template.method,
            resource=resolution.resource,
            host=template.host,
            headers=template.headers,
            query=parameters,
            path_parameters=resolution.path_parameters,
            client_address=template.client_address,
        )
        digest.criticality = self._find_criticality(digest)
        classification = self._recorded_place(template.place) or self._place(digest)
        choice = self._estimation.choose(digest, classification)
        work = (
            cut(_work(template, seats), choice.cap) if seats else _at_once(choice.estimate(digest, classification)).work
        )
        destination = Destination(self._controller, classification, work, template.identity)
        destination.route = route_key(digest) if self._learns else None
        if classification.level in self._headrooms:
            destination.gates = (headroom_gate_name(classification.level),)
        return _Resolved(digest, choice, destination)

    def _recorded_place(self, place: RecordedPlace | None) -> Classification | None:
        """Return the classification of the recording, if there is still such a level."""
        if place is None or place.level not in self._controller.levels:
            return None
        entropy = 0 if place.level in self._flowless else flow_hash(place.schema, place.flow)
        return Classification(place.schema, place.level, place.flow, entropy, place.weight)

    def _place(self, digest: RequestDigest) -> Classification:
        """Return the classification with the level that the request names, or with its schema's level."""
        found = self._classify(digest)
        placed = found if self._naming is None else self._naming.place(None, digest, found)
        return found if isinstance(placed, UnknownQueue) else placed

    def _estimated(self, known: _Resolved) -> Destination:
        """Return the destination with the current estimate of its work."""
        before = known.destination
        estimate = _at_once(known.choice.estimate(known.digest, before.classification))
        if estimate.work == before.work:
            return before
        destination = Destination(self._controller, before.classification, estimate.work, before.identity)
        destination.route, destination.gates = before.route, before.gates
        return destination


def _work(template: RequestTemplate, seats: int) -> Work:
    if template.final_seats or template.linger_ns:
        return Work(seats, template.final_seats, template.linger_ns)
    return plain_work(seats)


def _trusts_nothing(_: object) -> bool:
    return False  # no proxies are simulated; callers whose groups may name a queue still may


def _at_once(estimate: Estimate | Awaitable[Estimate]) -> Estimate:
    """Return the result of an estimate, which may be async as long as it never suspends: there is no event loop."""
    if isinstance(estimate, Estimate):
        return estimate
    steps = estimate.__await__()
    try:
        next(steps)
    except StopIteration as ended:
        found: Estimate = ended.value
        return found
    steps.close()
    rule = "in virtual time it can't wait"
    raise InvalidValueError("estimate", "a function that waits", rule, "Set the seats of requests in the scenario")
