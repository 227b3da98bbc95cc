"""Resolve requests: from an ASGI scope to the caller, the level and the work.

Authentication, digest, classification and estimate take some microseconds, and callers come back. So the result is
cached, by exactly what it depends on (see `request_cache`); the cache is bounded in entries and in their length, and an
entry ends with the credential that it depends on. A new configuration has a new resolver.
"""

import time
from collections import Counter
from collections.abc import Callable
from copy import copy
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from starlette.types import Receive, Scope

from apf_middleware.asgi.admin import Details
from apf_middleware.asgi.body import LONGEST_BODY, RequestBody, is_readable
from apf_middleware.asgi.identity import Authenticated, Chain, Refused
from apf_middleware.asgi.request_cache import LONGEST_KEY, REMEMBERED, CacheKeys, Key, RequestCache, length_of
from apf_middleware.asgi.responses import ResponseHeaders
from apf_middleware.asgi.scope import digest_request
from apf_middleware.asgi.streams import StreamPolicy
from apf_middleware.classification import Classification, Identity, RequestDigest
from apf_middleware.classification.cache import BoundedCache
from apf_middleware.classification.kubernetes import is_served_without_seats
from apf_middleware.config import Configuration
from apf_middleware.config.derive import derive_classifier, derive_resolver, derive_work
from apf_middleware.config.estimation import EstimationSettings, Sources
from apf_middleware.config.gating import Gating
from apf_middleware.estimation import Choice, Estimate, LearnedCosts, route_key
from apf_middleware.estimation.base import STEADY
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Controller, Destination, QueueNaming, UnknownQueue
from apf_middleware.runtime.queues.naming import REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Found", "GatedRequest", "RequestResolver", "ResolvedRequest", "Unseated"]

_BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_FOREVER: Final = 2**63 - 1
_SECOND: Final = 10**9
_READING: Final = frozenset({"get", "list", "watch", "head", "options"})  # of verbs; all others write
_ONE_SEAT: Final = Estimate(Work(), 1)

Headers = list[tuple[bytes, bytes]]


class Unseated(Enum):
    """Instead of a place: a request that is served at once, without a level and a seat."""

    LONG_RUNNING = "long-running"


class ResolvedRequest(Destination):
    """Where requests like one that was resolved go; ``until`` is when that must be found anew.

    ``headers`` go back with their responses. ``policy`` are there where a request may be more than a seat.
    """

    __slots__ = ("awaits_body", "body", "details", "headers", "policy", "until")

    details: Details

    def __init__(
        self,
        controller: Controller,
        classification: Classification,
        caller: "_Caller",
        headers: Headers,
        work: Work,
        *,
        writes: bool,
    ) -> None:
        super().__init__(controller, classification, work, caller.identity, writes=writes)
        self.headers: Headers = headers
        self.until: int = caller.until
        self.policy: StreamPolicy | None = None
        self.body: RequestBody | None = None  # what was read of it, for this request alone
        self.awaits_body: bool = False  # whether its body is received before it asks for seats, if it has one


class GatedRequest(ResolvedRequest):
    """One request with gates to pass, for which they are told all that is known of it."""

    __slots__ = ("digest", "gates", "scope")

    def told(self, gates: tuple[str, ...], digest: RequestDigest, scope: Scope) -> Self:
        self.gates: Sequence[str] = gates
        self.digest: RequestDigest | None = digest
        self.scope: Mapping[str, Any] = scope
        return self

    def forget_scope(self) -> None:
        """The request is over. Its scope has its admission, and that would have the scope again, by way of this."""
        self.scope = Destination.scope


Found = ResolvedRequest | Refused | UnknownQueue | Unseated
"""What a resolver finds out about a request."""


def _with_body(found: Found, body: RequestBody | None) -> Found:
    """What another resolver has found, for a request of which ``body`` had been read before."""
    if body is None or not isinstance(found, ResolvedRequest) or found.body is not None:
        return found
    alone = copy(found)  # the other one may be remembered, for requests whose bodies nobody has read
    alone.body = body
    return alone


class _Caller(NamedTuple):
    identity: Identity
    address: str
    until: int


class _Cost(NamedTuple):
    """Who has estimated, the estimate, and the body if it was read for that."""

    choice: Choice | None
    estimate: Estimate
    body: RequestBody | None


class _Costs:
    """How many seats requests take: one, unless the configuration says more."""

    def __init__(self, configuration: Configuration, sources: Sources) -> None:
        server = configuration.server
        said = server.estimation != EstimationSettings() or any(route.estimate for route in server.routes)
        self._estimation = derive_work(configuration, sources) if said or configuration.estimates else None
        self.dependence = STEADY if self._estimation is None else self._estimation.dependence
        self.usual = _Cost(None, _ONE_SEAT, None) if self._estimation is None else None
        self.learned = sources.costs if self.dependence.changing else None

    async def find(
        self,
        digest: RequestDigest,
        classification: Classification,
        scope: Scope,
        body: Callable[[Classification], RequestBody],
    ) -> "_Cost":
        """The estimate, for which the body may have to be read, and functions to be awaited."""
        assert self._estimation is not None, "then what it costs is usual"
        choice, read = self._estimation.choose(digest, classification), None
        if choice.wants_body(digest) and is_readable(scope):
            read = body(classification)
            await read.gather(LONGEST_BODY)
            digest.body = read.parsed()
        estimate = choice.estimate(digest, classification)
        return _Cost(choice, estimate if isinstance(estimate, Estimate) else await estimate, read)


class RequestResolver:
    """Receives requests for the levels of ``controller``; ``chain`` tells who asks.

    Once it has a ``successor``, whoever is still being received is received by that anew: what this one knows doesn't
    hold any more, and the level that it would find may have gone.
    """

    unknown_queues: Counter[str]

    def __init__(
        self,
        configuration: Configuration,
        controller: Controller,
        chain: Chain,
        response_headers: ResponseHeaders,
        *,
        sources: Sources | None = None,
        refused: Counter[str] | None = None,
        unknown_queues: Counter[str] | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self._chain = chain
        self._response_headers = response_headers
        self._wall_clock = wall_clock
        classifier = derive_classifier(configuration)
        self._classify, self._decide = classifier.classify, classifier.decide
        self._resolve = derive_resolver(configuration)
        self._has_unseated = configuration.server.resolver == "kubernetes"
        self._naming = QueueNaming(configuration, chain.comes_from_proxy) if configuration.lets_name_queues else None
        self.unknown_queues = Counter(dict.fromkeys(REASONS, 0)) if unknown_queues is None else unknown_queues
        self._costs = _Costs(configuration, Sources() if sources is None else sources)
        self._learned = self._costs.learned
        self._gating = Gating(configuration) if configuration.has_gates else None
        self._bodies = configuration.server.bodies
        self._keys = CacheKeys(configuration, chain, self._costs.dependence)
        self._cache: RequestCache[ResolvedRequest] = RequestCache(self._keys)
        self.recall: Callable[[Scope], ResolvedRequest | None] = self._cache.recall
        self._callers: BoundedCache[Key, _Caller] = BoundedCache(REMEMBERED)
        self.refused: Counter[str] = Counter() if refused is None else refused
        self.successor: RequestResolver | None = None

    @property
    def learned(self) -> LearnedCosts | None:
        """Where costs are to be noted, if estimates are learned from them."""
        return self._learned

    async def resolve(self, scope: Scope, now: int, messages: Receive | RequestBody) -> Found:
        """Resolve a request that isn't in the cache, and cache the result where it may be.

        Some of ``messages`` may have been received before.
        """
        key = self._key(scope)
        known = None if key is None else self._cache.get(key)
        if known is not None and known.until > now:
            return known
        caller = self._known_caller(scope, now)
        if caller is None:
            met = await self._meet(scope, now)
            if self.successor is not None:
                return await self.successor.resolve(scope, now, messages)
            if isinstance(met, Refused):
                return self._refuse(met)
            caller = met
        digest = digest_request(scope, caller.identity, caller.address, self._resolve)
        classification = self._place(scope, digest, remembers=key is not None)
        if not isinstance(classification, Classification):
            return classification
        usual = self._costs.usual
        body_of = partial(RequestBody.of, self._controller.bodies, messages)
        choice, estimate, body = usual or await self._costs.find(digest, classification, scope, body_of)
        messages = messages if body is None else body
        if self.successor is not None:
            return _with_body(await self.successor.resolve(scope, now, messages), body)
        resolved = self._seen(digest, classification, caller, estimate, scope)
        resolved.body = body
        if key is not None and not resolved.gates and (choice is None or choice.dependence.is_steady):
            self._cache.put(key, resolved)
        return resolved

    def _place(
        self, scope: Scope, digest: RequestDigest, *, remembers: bool
    ) -> Classification | UnknownQueue | Unseated:
        """Return where the request belongs, by what it is and by what it names."""
        if self._has_unseated and is_served_without_seats(digest):
            return Unseated.LONG_RUNNING
        classification = self._decide(digest) if remembers else self._classify(digest)
        if self._naming is None:
            return classification
        placed = self._naming.place(scope, digest, classification)
        return self._miss(placed) if isinstance(placed, UnknownQueue) else placed

    def _seen(
        self, digest: RequestDigest, classification: Classification, caller: _Caller, estimate: Estimate, scope: Scope
    ) -> ResolvedRequest:
        """Where this request goes, and what is to be resolved to on the way."""
        gates = () if self._gating is None else self._gating.names(digest, classification)
        headers, work, writes = self._response_headers.of(classification), estimate.work, digest.verb not in _READING
        if gates:
            gated = GatedRequest(self._controller, classification, caller, headers, work, writes=writes)
            resolved: ResolvedRequest = gated.told(gates, digest, scope)
        else:
            resolved = ResolvedRequest(self._controller, classification, caller, headers, work, writes=writes)
        if self._controller.running is not None:  # somebody may ask
            resolved.details = Details(digest.verb, digest.path, digest.resource)
        resolved.awaits_body = self._awaits_body(digest, resolved)
        if self._learned is not None:
            resolved.route = route_key(digest)
        was_cut, is_watch = work.width < estimate.asked, digest.verb == "watch" and digest.resource is not None
        if was_cut or is_watch or resolved.runtime.streams.is_limited:
            resolved.policy = StreamPolicy(digest, resolved, was_cut=was_cut, is_watch=is_watch)
        return resolved

    def _awaits_body(self, digest: RequestDigest, resolved: ResolvedRequest) -> bool:
        """Whether such a request asks for seats when its body is there."""
        settings = self._bodies
        if settings.hold_seats or resolved.runtime.shared.exempt:
            return False
        return settings.any_method or digest.method not in _BODILESS

    async def identify(self, scope: Scope, now: int) -> Identity | Refused:
        """Who asks, and nothing else."""
        caller = self._known_caller(scope, now) or await self._meet(scope, now)
        if self.successor is not None:
            return await self.successor.identify(scope, now)
        return self._refuse(caller) if isinstance(caller, Refused) else caller.identity

    def _miss(self, unknown: UnknownQueue) -> UnknownQueue:
        self.unknown_queues[unknown.reason] += 1
        return unknown

    def _refuse(self, refused: Refused) -> Refused:
        self.refused[refused.reason] += 1
        return refused

    def _key(self, scope: Scope) -> Key | None:
        """The key, if what is found may be remembered."""
        if not self._keys.is_memorable:
            return None
        try:
            key = self._keys.of_request(scope)
            hash(key)
        except (KeyError, TypeError):
            return None
        return key if length_of(key) <= LONGEST_KEY else None

    def _known_caller(self, scope: Scope, now: int) -> _Caller | None:
        """Whoever asks, if they were met lately."""
        if not self._chain.memorable:
            return None
        known = self._callers.get(self._keys.of_caller(scope))
        return known if known is not None and known.until > now else None

    async def _meet(self, scope: Scope, now: int) -> _Caller | Refused:
        """Whoever the chain says that it is."""
        verdict = self._chain.identify(scope)
        if not isinstance(verdict, Authenticated | Refused):
            verdict = await verdict
        if isinstance(verdict, Refused):
            return verdict
        caller = _Caller(verdict.identity, self._chain.client_address(scope), self._until(verdict, now))
        if self._chain.memorable:
            key = self._keys.of_caller(scope)
            if length_of(key) <= LONGEST_KEY:
                self._callers.put(key, caller)
        return caller

    def _until(self, verdict: Authenticated, now: int) -> int:
        """The end of a credential on the monotonic clock."""
        if verdict.valid_until is None:
            return _FOREVER
        return now + int((verdict.valid_until - self._wall_clock()) * _SECOND)

    def refresh(self) -> None:
        """Let authenticators look for changed files and keys; if answers may differ now, forget what was remembered."""
        if self._chain.refresh():
            self._cache.clear()
            self._callers.clear()

    def __repr__(self) -> str:
        return f"<RequestResolver: {len(self._cache)} requests and {len(self._callers)} callers remembered>"
