"""Where requests go: a server's own way from who asks for what to level, flow and work, without the server.

Resolver, classifier and estimators are the production's, made from the configuration as the middleware makes them.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apf_middleware.classification import ANONYMOUS, Classification, Identity, RequestDigest
from apf_middleware.config import Configuration
from apf_middleware.config.derive import derive_classifier, derive_resolver, derive_work
from apf_middleware.config.estimation import Sources
from apf_middleware.estimation import Choice, Estimate, route_key
from apf_middleware.estimation.base import cut, plain_work
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime import Controller, Destination, QueueNaming, UnknownQueue

__all__ = ["MOST_KNOWN", "Asker", "Directory", "identity_of"]

MOST_KNOWN = 50_000
"""More kinds of requests are looked up anew each time."""

_AUTHENTICATED = "system:authenticated"


def identity_of(user: str, groups: tuple[str, ...] = ()) -> Identity:
    """Whom this name stands for, in the groups in which authentication would put them; no name is anonymous."""
    if user in ("", ANONYMOUS.name):
        return Identity(ANONYMOUS.name, (*groups, *ANONYMOUS.groups)) if groups else ANONYMOUS
    return Identity(user, tuple(dict.fromkeys((*groups, _AUTHENTICATED))))


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """Who asks, and for what; header names are in lower case. One is the same as another only if it is that one."""

    identity: Identity
    method: str = "GET"
    path: str = "/"
    host: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    client_address: str = ""


class _Known(NamedTuple):
    digest: RequestDigest
    choice: Choice
    destination: Destination


class Directory:
    """Finds the destinations at one server."""

    def __init__(self, configuration: Configuration, controller: Controller) -> None:
        sources = Sources()
        self._controller = controller
        self._resolve = derive_resolver(configuration)
        self._classify = derive_classifier(configuration).classify
        self._naming = QueueNaming(configuration, _nobody_believes) if configuration.lets_name_queues else None
        self._estimation = derive_work(configuration, sources)
        self._learns = self._estimation.dependence.changing
        if self._learns:
            controller.costs = sources.costs
        self._known: dict[tuple[Asker, int], _Known] = {}

    def find(self, asker: Asker, seats: int = 0) -> Destination:
        """Where this goes: so many seats wide as is said here, or as the configuration estimates; cut to its cap."""
        key = (asker, seats)
        known = self._known.get(key)
        if known is None:
            known = self._look_up(asker, seats)
            if len(self._known) < MOST_KNOWN:
                self._known[key] = known
        elif not (seats or known.choice.dependence.is_steady):
            return self._estimated(known)
        return known.destination

    def _look_up(self, asker: Asker, seats: int) -> _Known:
        path, _, query = asker.path.partition("?")
        parameters = _parameters(query)
        resolution = self._resolve(asker.method, path, parameters)
        digest = RequestDigest(
            identity=asker.identity,
            verb=resolution.verb,
            path=path,
            method=asker.method,
            resource=resolution.resource,
            host=asker.host,
            headers=asker.headers,
            query=parameters,
            path_parameters=resolution.path_parameters,
            client_address=asker.client_address,
        )
        classification = self._place(digest)
        choice = self._estimation.choose(digest, classification)
        work = cut(plain_work(seats), choice.cap) if seats else _at_once(choice.estimate(digest, classification)).work
        destination = Destination(self._controller, classification, work, asker.identity)
        destination.route = route_key(digest) if self._learns else None
        return _Known(digest, choice, destination)

    def _place(self, digest: RequestDigest) -> Classification:
        """The level that it names, or that its schema says; who names what isn't there goes where that says, too."""
        found = self._classify(digest)
        placed = found if self._naming is None else self._naming.place(None, digest, found)
        return found if isinstance(placed, UnknownQueue) else placed

    def _estimated(self, known: _Known) -> Destination:
        """Its work may be another by now."""
        before = known.destination
        estimate = _at_once(known.choice.estimate(known.digest, before.classification))
        if estimate.work == before.work:
            return before
        destination = Destination(self._controller, before.classification, estimate.work, before.identity)
        destination.route = before.route
        return destination


def _nobody_believes(_: object) -> bool:
    return False  # no proxies are simulated; members of groups are believed as ever


def _parameters(query: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for part in query.split("&") if query else ():
        name, _, value = part.partition("=")
        parameters.setdefault(name, value)
    return parameters


def _at_once(estimate: Estimate | Awaitable[Estimate]) -> Estimate:
    """An async function may estimate as long as it waits for nothing: there is no event loop here."""
    if isinstance(estimate, Estimate):
        return estimate
    steps = estimate.__await__()
    try:
        next(steps)
    except StopIteration as ended:
        found: Estimate = ended.value
        return found
    steps.close()
    rule = "in virtual time nothing can be waited for"
    raise InvalidValueError("estimate", "a function that waits", rule, "Say in the scenario how many seats it takes")
