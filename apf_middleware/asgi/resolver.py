"""Resolve requests: from an ASGI scope to the caller, the level and the work.

To resolve a request means to authenticate its caller, extract the facts that the rules need (the *digest*), classify it
and estimate its work. This takes some microseconds, and most callers send many requests. The result is therefore
cached; the key consists of exactly the facts on which the result depends (see `request_cache`). The number of entries
and the length of each key are bounded. An entry is valid until the caller's credential expires. If a refresh of files
or keys may have changed identities, the cache is cleared. Each configuration has its own resolver.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.types import Receive, Scope

from apf_middleware.asgi.body import LONGEST_BODY, RequestBody, is_readable
from apf_middleware.asgi.identity import Authenticated, Chain, Refused, refuse
from apf_middleware.asgi.identity.verdict import Verdict
from apf_middleware.asgi.request_cache import LONGEST_KEY, REMEMBERED, CacheKeys, Key, RequestCache, length_of
from apf_middleware.asgi.request_criticality import build_criticality
from apf_middleware.asgi.response_headers import ResponseHeaders
from apf_middleware.asgi.scope import digest_request
from apf_middleware.asgi.stream_policy import StreamPolicy
from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.classification import Classification, Identity, RequestDigest, Resource
from apf_middleware.classification.digest import NO_VALUES
from apf_middleware.classification.kubernetes import is_served_without_seats
from apf_middleware.compilation import mypyc_attr
from apf_middleware.config import Configuration
from apf_middleware.config.build import derive_classifier, derive_resolver, derive_work
from apf_middleware.config.estimation import EstimationSettings, Sources
from apf_middleware.config.gating import Gating
from apf_middleware.estimation import Choice, Estimate, route_key
from apf_middleware.estimation.base import STEADY
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Controller, Destination, QueueNaming, UnknownQueue
from apf_middleware.runtime.queues.naming import REASONS

if TYPE_CHECKING:
    from apf_middleware.asgi.request_criticality import RequestCriticality
    from apf_middleware.asgi.scope import Headers

__all__ = [
    "NO_DETAILS",
    "RequestDetails",
    "RequestResolver",
    "ResolveResult",
    "ResolvedRequest",
    "ServedWithoutSeats",
]

_BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_FOREVER: Final = 2**62 - 1  # the largest integer that the compiled build keeps without an object
_SECOND: Final = 10**9
_CACHED_FUNCTION_NS: Final = 10 * _SECOND  # for so long an answer of a function counts that doesn't say until when
_READING: Final = frozenset({"get", "list", "watch", "head", "options"})  # the verbs that don't write
_ONE_SEAT: Final = Estimate(Work(), 1)


class ServedWithoutSeats(Enum):
    """Requests that are served at once, without a level and seats."""

    LONG_RUNNING = "long-running"


class RequestDetails(NamedTuple):
    """The verb, path and resource of a request, kept for the admin interface, which lists running requests."""

    verb: str
    path: str
    resource: Resource | None


NO_DETAILS: Final = RequestDetails("", "", None)
"""The details of a request for which none were kept."""


@mypyc_attr(allow_interpreted_subclasses=True)  # so that it can be copied
class ResolvedRequest(Destination):
    """The destination of all requests with the same cache key; it must not be used after the time ``until``.

    ``headers`` are added to rejections and to responses to requests that have waited, and ``headers_at_once`` to
    responses to requests that were admitted at once. ``policy`` is None unless the level limits open streams, the
    requests are Kubernetes watches, or they get fewer seats than their estimate. Most requests are ``is_plain``: they
    ask for seats without further preparation.
    """

    __slots__ = ("awaits_body", "body", "details", "headers", "headers_at_once", "is_plain", "policy", "until")

    details: RequestDetails  # unset unless the admin lists running requests

    def __init__(
        self,
        controller: Controller,
        classification: Classification,
        caller: "_Caller",
        response_headers: ResponseHeaders,
        work: Work,
        *,
        writes: bool,
    ) -> None:
        super().__init__(controller, classification, work, caller.identity, writes=writes)
        self.headers: Headers = response_headers.of(classification)
        self.headers_at_once: Headers = self.headers if response_headers.are_for_all else []
        self.until: int = caller.until
        self.policy: StreamPolicy | None = None
        self.body: RequestBody | None = None  # the body that an estimator has read; then this is for one request only
        self.awaits_body: bool = False  # whether the body must be received before the request asks for seats
        self.is_plain: bool = True


ResolveResult = ResolvedRequest | Refused | UnknownQueue | ServedWithoutSeats
"""The result of resolving a request."""


class _Caller:
    """A caller that has been authenticated, until the credential expires."""

    __slots__ = ("address", "identity", "until")

    def __init__(self, identity: Identity, address: str, until: int) -> None:
        self.identity: Identity = identity
        self.address: str = address
        self.until: int = until


@dataclass(slots=True)
class _Cost:
    """The estimator, its estimate, and the body if the estimator has read it."""

    choice: Choice | None
    estimate: Estimate
    body: RequestBody | None


class _Costs:
    """The work of requests: one seat, unless the configuration has estimates."""

    def __init__(self, configuration: Configuration, sources: Sources) -> None:
        server = configuration.server
        said = server.estimation != EstimationSettings() or any(route.estimate for route in server.routes)
        self._estimation = derive_work(configuration, sources) if said or configuration.estimates else None
        self.dependence = STEADY if self._estimation is None else self._estimation.dependence
        # Without any settings every request has the same cost, and `resolve` makes no estimate at all.
        self.usual = _Cost(None, _ONE_SEAT, None) if self._estimation is None else None
        self.are_learned = self.dependence.changing or configuration.learns_routes

    async def find(
        self,
        digest: RequestDigest,
        classification: Classification,
        scope: Scope,
        body: Callable[[Classification], RequestBody],
    ) -> _Cost:
        """Estimate the work of a request; some estimators read its body."""
        assert self._estimation is not None, "otherwise the cost is `usual`"
        choice, read = self._estimation.choose(digest, classification), None
        try:
            if choice.wants_body(digest) and is_readable(scope):
                read = body(classification)
                await read.gather(LONGEST_BODY)
                digest.body = read.parsed()
            estimate = choice.estimate(digest, classification)
            return _Cost(choice, estimate if isinstance(estimate, Estimate) else await estimate, read)
        except BaseException:  # the caller hasn't got the body yet, and can't close it
            if read is not None:
                read.close()
            raise


class RequestResolver:
    """The resolver of one configuration, for the levels of ``controller``; ``chain`` authenticates callers.

    A reload sets ``successor``, the resolver of the new configuration. Requests that are being resolved at that moment
    are passed to the successor, because the level that this resolver would find may no longer exist.
    """

    unknown_queues: Counter[str]

    def __init__(
        self,
        configuration: Configuration,
        controller: Controller,
        chain: Chain,
        *,
        sources: Sources | None = None,
        before: "RequestResolver | None" = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self.chain: Chain = chain
        self.response_headers: ResponseHeaders = ResponseHeaders(configuration.server.responses)
        self._wall_clock = wall_clock
        self._classifier = derive_classifier(configuration)
        self._resolve = derive_resolver(configuration)
        self._has_unseated = configuration.server.resolver == "kubernetes"
        self._naming = QueueNaming(configuration, chain.comes_from_proxy) if configuration.lets_name_queues else None
        # Counters are kept, because Prometheus takes a counter that falls for one that was reset.
        self.unknown_queues = Counter(dict.fromkeys(REASONS, 0)) if before is None else before.unknown_queues
        self._costs = _Costs(configuration, Sources() if sources is None else sources)
        self._gating = Gating(configuration) if configuration.has_gates else None
        bodies = configuration.server.bodies
        self._holds_seats, self._bodiless = bodies.hold_seats, frozenset() if bodies.any_method else _BODILESS
        self.criticality: RequestCriticality | None = build_criticality(
            configuration, chain, None if before is None else before.criticality
        )
        self.keys: CacheKeys = CacheKeys(configuration, chain, self._costs.dependence)
        # public: on the hot path, the caller looks here before it calls `resolve`
        self.cache: RequestCache[ResolvedRequest] = RequestCache(self.keys)
        # Not recalled: a gate may be missing, so these requests take the longer way.
        self._gated: BoundedCache[Key, ResolvedRequest] = BoundedCache(REMEMBERED)
        self._callers: BoundedCache[Key, _Caller] = BoundedCache(REMEMBERED)
        self.refused: Counter[str] = Counter() if before is None else before.refused
        self.successor: RequestResolver | None = None
        # The number of times that `refresh` has cleared the caches. If it changes during an authentication, the result
        # isn't cached.
        self._refreshes = 0

    async def resolve(self, scope: Scope, now: int, messages: Receive | RequestBody) -> ResolveResult:
        """Resolve a request that isn't in the `cache`, and cache the result if it may be cached.

        ``messages`` is the server's ``receive``, or the body if a part of it was received before.
        """
        key, known = self.cache.find(scope)
        if known is None and key is not None and self._gating is not None:
            known = self._gated.get(key)
        if known is not None and known.until > now:
            return known
        refreshes = self._refreshes
        caller = self._find_caller(scope, now)
        if not isinstance(caller, _Caller) and not isinstance(caller, Refused):
            caller = await caller
        # The configuration may have been reloaded while the authenticator was awaited. The successor authenticates the
        # caller again, because its chain may differ.
        if (successor := self.successor) is not None:
            return await successor.resolve(scope, now, messages)
        if isinstance(caller, Refused):
            return self._count_refused(caller)  # counted only now, because the successor counts its own refusals
        digest = digest_request(scope, caller.identity, caller.address, self._resolve)
        if self.criticality is not None:
            digest.criticality = self.criticality.claimed(scope, caller.identity)
        classification = self._place(scope, digest, remembers=key is not None)
        if not isinstance(classification, Classification):
            return classification
        cost = self._costs.usual or await self._costs.find(
            digest, classification, scope, partial(RequestBody.of, self._controller.bodies, messages)
        )
        body = cost.body
        if self.successor is not None:  # reloaded while the body was received or the estimate was awaited
            return await _resolve_again(self.successor, scope, now, messages, body)
        resolved = self._resolved(digest, classification, caller, cost.estimate)
        resolved.body = body
        # A result is for one request only if the estimate depends on more than the key contains, such as the body.
        is_for_one = not (cost.choice is None or cost.choice.dependence.is_steady)
        if key is not None and not is_for_one and refreshes == self._refreshes:
            (self._gated if resolved.gates else self.cache).put(key, resolved)
        return resolved

    def _place(
        self, scope: Scope, digest: RequestDigest, *, remembers: bool
    ) -> Classification | UnknownQueue | ServedWithoutSeats:
        """Classify a request by its digest, and by the queue that it names."""
        if self._has_unseated and is_served_without_seats(digest):
            return ServedWithoutSeats.LONG_RUNNING
        # Most results are cached by this resolver. `decide` doesn't put them into the classifier's own cache, where
        # they would only take memory.
        classification = self._classifier.decide(digest) if remembers else self._classifier.classify(digest)
        if self._naming is None:
            return classification
        placed = self._naming.place(scope, digest, classification)
        return self._count_unknown(placed) if isinstance(placed, UnknownQueue) else placed

    def _resolved(
        self, digest: RequestDigest, classification: Classification, caller: _Caller, estimate: Estimate
    ) -> ResolvedRequest:
        """Return the resolved request."""
        gates = () if self._gating is None else self._gating.names(digest, classification)
        work, writes = estimate.work, digest.verb not in _READING
        resolved = ResolvedRequest(self._controller, classification, caller, self.response_headers, work, writes=writes)
        if gates:  # headers are large, and each request has its own (see `complete_digest`)
            resolved.gates, resolved.digest = gates, replace(digest, headers=NO_VALUES, query=NO_VALUES, host="")
        if self._controller.running is not None:  # the admin lists running requests
            resolved.details = RequestDetails(digest.verb, digest.path, digest.resource)
        if not self._holds_seats and digest.method not in self._bodiless:
            resolved.awaits_body = not resolved.runtime.shared.exempt
        if self.criticality is not None:
            resolved.criticality = self.criticality.passed_on(classification.schema, digest.criticality)
        # The controller meters each request that has a route, so the route is set only if something learns from that.
        if self._costs.are_learned:
            resolved.route = route_key(digest)
        was_cut, is_watch = work.width < estimate.asked, digest.verb == "watch" and digest.resource is not None
        if was_cut or is_watch or resolved.runtime.streams.is_limited:
            resolved.policy = StreamPolicy(digest, resolved, was_cut=was_cut, is_watch=is_watch)
        resolved.is_plain = resolved.policy is None and not gates
        return resolved

    async def identify(self, scope: Scope, now: int) -> Identity | Refused:
        """Authenticate the caller without classifying the request."""
        caller = self._find_caller(scope, now)
        if not isinstance(caller, _Caller) and not isinstance(caller, Refused):
            caller = await caller
        # As in `resolve`: the chain of the new configuration may refuse a caller that the old one has accepted.
        if self.successor is not None:
            return await self.successor.identify(scope, now)
        return self._count_refused(caller) if isinstance(caller, Refused) else caller.identity

    def _count_unknown(self, unknown: UnknownQueue) -> UnknownQueue:
        self.unknown_queues[unknown.reason] += 1
        return unknown

    def _count_refused(self, refused: Refused) -> Refused:
        self.refused[refused.reason] += 1
        return refused

    def _find_caller(self, scope: Scope, now: int) -> _Caller | Refused | Awaitable[_Caller | Refused]:
        """Return the caller if it is cached with a valid credential; otherwise authenticate it."""
        key: Key | None = None
        if self.chain.memorable:
            try:
                key = self.keys.of_caller(scope)
                known = self._callers.get(key)
                if known is None and length_of(key) > LONGEST_KEY:
                    key = self.keys.shortened(key)
                    known = None if key is None else self._callers.get(key)
            except TypeError:  # as in `RequestCache.find`
                key = known = None
            if known is not None and known.until > now:
                return known
        verdict = self.chain.identify(scope)
        if isinstance(verdict, (Authenticated, Refused)):
            return self._accept(scope, now, key, verdict)
        return self._accept_later(scope, now, key, verdict)

    async def _accept_later(
        self, scope: Scope, now: int, key: Key | None, pending: Awaitable[Verdict]
    ) -> _Caller | Refused:
        """Await the verdict, and do what `_accept` does."""
        refreshes = self._refreshes
        verdict = await pending
        return self._accept(scope, now, key if refreshes == self._refreshes else None, verdict)

    def _accept(self, scope: Scope, now: int, key: Key | None, verdict: Verdict) -> _Caller | Refused:
        """Return the caller or the refusal; cache an accepted caller under ``key``, unless it is None."""
        if isinstance(verdict, Refused):
            return verdict
        until = self._until(verdict, now)
        if until <= now:  # a function may return what it has looked up, without a look at the clock
            return refuse("expired")
        caller = _Caller(verdict.identity, self.chain.client_address(scope), until)
        if key is not None:
            # What a client sends is bounded by its key or, if this has a digest of the headers, in the identity.
            is_shortened = len(key) > 1 and isinstance(key[1], bytes)
            if not is_shortened or _length_of_identity(verdict.identity) <= LONGEST_KEY:
                self._callers.put(key, caller)
        return caller

    def _until(self, verdict: Authenticated, now: int) -> int:
        """Return the time until which a caller may be cached, on the monotonic clock."""
        if verdict.valid_until is None:
            return now + _CACHED_FUNCTION_NS if self.chain.asks_functions else _FOREVER
        if verdict.valid_until == inf:
            return _FOREVER
        # If the authenticator was awaited, ``now`` is older than this reading of the wall clock. The result is then too
        # early, never too late.
        return now + int((verdict.valid_until - self._wall_clock()) * _SECOND)

    def refresh(self) -> None:
        """Reload changed files and keys of authenticators, and clear the caches if identities may have changed."""
        if self.chain.refresh():
            self._refreshes += 1
            # cached requests contain the identities of their callers
            self.cache.clear()
            self._gated.clear()
            self._callers.clear()

    def __repr__(self) -> str:
        cached = len(self.cache) + len(self._gated)
        return f"<RequestResolver: {cached} requests and {len(self._callers)} callers cached>"


def _length_of_identity(identity: Identity) -> int:
    extra = [part for name, values in identity.extra.items() for part in (name, *values)]
    return length_of((identity.name, identity.uid, *identity.groups, *extra))


async def _resolve_again(
    successor: RequestResolver, scope: Scope, now: int, messages: Receive | RequestBody, body: RequestBody | None
) -> ResolveResult:
    """Return what ``successor`` finds, with the ``body`` that was read of ``messages`` for the old configuration."""
    if body is None:
        return await successor.resolve(scope, now, messages)
    found: ResolveResult | None = None
    try:
        found = await successor.resolve(scope, now, body)
    finally:
        if not isinstance(found, ResolvedRequest) and body is not messages:  # no other code knows the body
            body.close()
    if not isinstance(found, ResolvedRequest) or found.body is not None:
        return found
    alone = copy(found)  # ``found`` may be in the cache, which other requests use
    alone.body = body
    return alone
