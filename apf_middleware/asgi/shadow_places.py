"""Where a second configuration places requests, whose callers the real server has authenticated.

Nothing is awaited, no body is read again, and no estimator of the app is called again. Where the second configuration
asks for one of these, the request has the seats that the real server has estimated, and is counted.
"""

from typing import TYPE_CHECKING

from starlette.types import Scope

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.request_cache import REMEMBERED, CacheKeys, RequestCache
from apf_middleware.asgi.request_criticality import build_criticality
from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.asgi.scope import digest_request
from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.classification.kubernetes import is_served_without_seats
from apf_middleware.config import Configuration
from apf_middleware.config.build import derive_classifier, derive_resolver, derive_work
from apf_middleware.config.estimation import Sources
from apf_middleware.estimation import Estimate, route_key
from apf_middleware.estimation.base import cut
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Destination, QueueNaming, UnknownQueue
from apf_middleware.runtime.shadow import ShadowPlace, ShadowServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from apf_middleware.asgi.request_criticality import RequestCriticality

__all__ = ["ShadowPlaces"]


class ShadowPlaces:
    """The places of requests in ``configuration``, for the levels of ``server``.

    ``chain`` and ``keys``, by which results are cached, are those of the real server.

    ``known`` are places by what the real server has resolved. ``unplaced`` counts the requests for which there is no
    place, because they name a queue that can't take them or are served without seats, and ``unestimated`` those whose
    seats are as the real server has estimated them.
    """

    def __init__(
        self, configuration: Configuration, server: ShadowServer, chain: Chain, keys: CacheKeys, sources: Sources
    ) -> None:
        self._configuration = configuration
        self._server = server
        self._classify: Callable[[RequestDigest], Classification] = derive_classifier(configuration).classify
        self._resolve = derive_resolver(configuration)
        self._has_unseated = configuration.server.resolver == "kubernetes"
        self._estimation = derive_work(configuration, sources)
        self._learns = self._estimation.dependence.changing or configuration.learns_routes
        self.unplaced: int = 0
        self.unestimated: int = 0
        self.adopt(chain, keys)

    def adopt(self, chain: Chain, keys: CacheKeys) -> None:
        """Use the ``chain`` and the ``keys`` of another real configuration."""
        self._chain = chain
        configuration = self._configuration
        self._naming = QueueNaming(configuration, chain.comes_from_proxy) if configuration.lets_name_queues else None
        self._criticality: RequestCriticality | None = build_criticality(configuration, chain)
        own = CacheKeys(configuration, chain, self._estimation.dependence)
        self._cache: RequestCache[ShadowPlace] = RequestCache(own)
        # The real server has one result for all requests with equal keys. If these have equal keys here, too, they
        # have one place, which is found by that result.
        self._is_covered = keys.is_memorable and keys.cover(own)
        self.known: BoundedCache[ResolvedRequest, ShadowPlace] = BoundedCache(REMEMBERED)

    def find(self, scope: Scope, real: ResolvedRequest) -> ShadowPlace | None:
        """Return the place of a request whose result isn't among the young ``known`` ones; None if it gets no place."""
        place = self._cache.recall(scope)
        # Another identity means that a credential has been changed since.
        if place is not None and place.identity is real.identity:
            if self._is_covered:
                self.known.put(real, place)
            return place
        digest = digest_request(scope, real.identity, self._chain.client_address(scope), self._resolve)
        if self._criticality is not None:
            digest.criticality = self._criticality.claimed(scope, real.identity)
        classification = self._place(scope, digest)
        if classification is None:
            self.unplaced += 1
            return None
        work, is_steady = self._estimate(digest, classification, real)
        destination = Destination(self._server.controller, classification, work, real.identity)
        route = route_key(digest)
        if self._learns:
            destination.route = route
        tally = self._server.tallies.schema(classification.level, classification.schema)
        place = ShadowPlace(destination, tally, real.identity, self._server.durations.of(route))
        if is_steady:
            key, _ = self._cache.find(scope)
            if key is not None:
                self._cache.put(key, place)
        return place

    def _place(self, scope: Scope, digest: RequestDigest) -> Classification | None:
        if self._has_unseated and is_served_without_seats(digest):
            return None
        classification = self._classify(digest)
        if self._naming is None:
            return classification
        placed = self._naming.place(scope, digest, classification)
        return None if isinstance(placed, UnknownQueue) else placed

    def _estimate(
        self, digest: RequestDigest, classification: Classification, real: ResolvedRequest
    ) -> tuple[Work, bool]:
        """Return the work of a request, and whether equal requests always have the same."""
        choice = self._estimation.choose(digest, classification)
        dependence, wants_body = choice.dependence, choice.wants_body(digest)
        if not (dependence.anything or (wants_body and real.body is None)):
            if wants_body and real.body is not None:
                digest.body = real.body.parsed()
            found = choice.estimate(digest, classification)
            if isinstance(found, Estimate):
                return found.work, dependence.is_steady
        self.unestimated += 1
        return cut(real.work, choice.cap), False

    def __repr__(self) -> str:
        return f"<ShadowPlaces: {len(self._cache)} cached>"
