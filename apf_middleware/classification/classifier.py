"""The classifier: from a request's digest to schema, level and flow.

The first schema that accepts the request wins, by precedence and then by name. If none does, a fallback takes it, so
that every request has exactly one level. The fallbacks are the KEP's backstops: one for the group system:masters and
one for all others.

Three caches make it fast. Each is bounded in entries and in the length of its keys, because clients choose paths,
headers and names. Decisions are cached by exactly those facts that any rule reads: usually caller, verb and path, or
caller, verb and resource. Plans are cached by identity, so that a new path is only compared with schemas that can match
that identity. Flows are cached with their hash. Where a flow depends on facts outside of the key, such as a header, the
schema is cached and only the flow is computed again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apf_middleware.classification.cache import BoundedCache
from apf_middleware.classification.digest import Identity, RequestDigest
from apf_middleware.classification.distinguisher import compile_distinguisher, depends_only_on_identity_and_resource
from apf_middleware.classification.facts import compile_keys, facts_of, looks_at_uid
from apf_middleware.classification.matching import why_not
from apf_middleware.classification.plans import Plan, SchemaIndex
from apf_middleware.classification.schema import Classification, FlowSchema
from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["LONGEST_FLOW", "LONGEST_IDENTITY", "LONGEST_KEY", "MASTERS", "Classifier", "Explanation"]

MASTERS = "system:masters"
"""The group whose requests have a fallback of their own."""

LONGEST_KEY = 1024
"""The most characters of path, host, headers and the like with which a decision is cached."""

LONGEST_IDENTITY = 2048
"""The most characters of name, UID and groups with which an identity is cached."""

LONGEST_FLOW = 256
"""The most characters of a distinguisher with which a flow is cached."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A classification, and why each schema that was tried before didn't accept the request."""

    classification: Classification
    passed_over: tuple[tuple[str, str], ...]  # the schema's name, and why not
    fallback: bool  # no schema accepted it


class _Outcome:
    """The schema that a decision ends with, compiled."""

    __slots__ = ("flowless", "read", "schema", "settled")

    def __init__(self, schema: FlowSchema, *, flowless: bool) -> None:
        self.schema = schema
        self.flowless = flowless
        self.settled = flowless or depends_only_on_identity_and_resource(schema.distinguisher)
        self.read = compile_distinguisher(schema)


class Classifier:
    """Classifies requests by flow schemas.

    ``hash_flow`` makes 64 bits of a schema's name and a distinguisher. ``fallback`` takes the requests that no schema
    accepts, and ``masters_fallback``, if given, those of system:masters; the rules of both are ignored, and they may be
    among ``schemas``. On ``flowless_levels``, without queues or with only one, flows don't matter: the distinguisher is
    empty and the entropy 0, as upstream's.
    """

    __slots__ = (
        "_decisions",
        "_fallback",
        "_flows",
        "_hash_flow",
        "_index",
        "_masters_fallback",
        "_outcomes",
        "_plain_key",
        "_plans",
        "_resource_key",
        "_with_uid",
        "schemas",
    )

    def __init__(
        self,
        schemas: Iterable[FlowSchema],
        *,
        hash_flow: Callable[[str, str], int],
        fallback: FlowSchema,
        masters_fallback: FlowSchema | None = None,
        flowless_levels: Iterable[str] = (),
        remembered: int = 4096,
    ) -> None:
        self.schemas: tuple[FlowSchema, ...] = _in_order(schemas)
        if not callable(hash_flow):
            raise InvalidValueError("hash_flow", hash_flow, "it must be a function of two strings")
        require_integer("remembered", remembered, least=1)
        if isinstance(flowless_levels, str):
            raise InvalidValueError("flowless_levels", flowless_levels, "it must be several names, not one")
        flowless = frozenset(flowless_levels)
        for name, schema in (("fallback", fallback), ("masters_fallback", masters_fallback or fallback)):
            if not isinstance(schema, FlowSchema):
                raise InvalidValueError(name, schema, "it must be a FlowSchema")
        self._hash_flow = hash_flow
        self._index = SchemaIndex(self.schemas)
        self._outcomes = [_Outcome(schema, flowless=schema.level in flowless) for schema in self.schemas]
        self._fallback = _Outcome(fallback, flowless=fallback.level in flowless)
        masters = masters_fallback or fallback
        self._masters_fallback = _Outcome(masters, flowless=masters.level in flowless)
        facts = facts_of(self.schemas)
        self._with_uid = looks_at_uid(facts)
        self._plain_key, self._resource_key = compile_keys(facts)
        self._decisions: BoundedCache[tuple[object, ...], Classification | _Outcome] = BoundedCache(remembered)
        self._plans: BoundedCache[tuple[object, ...], Plan] = BoundedCache(remembered)
        self._flows: BoundedCache[tuple[str, str], Classification] = BoundedCache(remembered)

    def __repr__(self) -> str:
        return f"Classifier: {len(self.schemas)} schemas, {len(self._decisions)} decisions remembered"

    def classify(self, digest: RequestDigest) -> Classification:
        """Return the schema, level and flow of this request."""
        key = (self._plain_key if digest.resource is None else self._resource_key)(digest)
        found = self._decisions.young.get(key)
        if found.__class__ is Classification:
            return found
        return self._decide(digest, key, found)

    def decide(self, digest: RequestDigest) -> Classification:
        """Classify without the cache of decisions, for callers with a better one: quicker if nothing is known."""
        return self._classification(self._outcome(self._plan(digest.identity)[0], digest), digest)

    def explain(self, digest: RequestDigest) -> Explanation:
        """Return the classification and its explanation; slow, for people."""
        passed_over = []
        for schema in self.schemas:
            reason = why_not(schema, digest)
            if reason is None:
                break
            passed_over.append((schema.name, reason))
        return Explanation(self.classify(digest), tuple(passed_over), len(passed_over) == len(self.schemas))

    def _decide(
        self, digest: RequestDigest, key: tuple[object, ...], found: Classification | _Outcome | None
    ) -> Classification:
        """Classify a request that isn't cached, or of which only the outcome is."""
        if found is None:
            found = self._decisions.get(key)
        if isinstance(found, Classification):
            return found
        if found is not None:
            return self._classification(found, digest)
        plan, short = self._plan(digest.identity)
        outcome = self._outcome(plan, digest)
        classification = self._classification(outcome, digest)
        if short and sum(map(len, key[2:])) <= LONGEST_KEY:  # type: ignore[arg-type]  # all have lengths
            self._decisions.put(key, classification if outcome.settled else outcome)
        return classification

    def _plan(self, identity: Identity) -> tuple[Plan, bool]:
        """Return the plan for an identity, and whether it is short enough to be cached."""
        key = (identity.name, identity.groups, identity.uid) if self._with_uid else (identity.name, identity.groups)
        plan = self._plans.get(key)
        if plan is not None:
            return plan, True
        plan = self._index.plan(identity)
        length = len(identity.name) + len(identity.uid) + sum(map(len, identity.groups)) + len(identity.groups)
        if length <= LONGEST_IDENTITY:
            self._plans.put(key, plan)
        return plan, length <= LONGEST_IDENTITY

    def _outcome(self, plan: Plan, digest: RequestDigest) -> _Outcome:
        """Return the first schema of the plan that accepts the request, or a fallback."""
        number = plan.first(digest)
        if number is not None:
            return self._outcomes[number]
        return self._masters_fallback if MASTERS in digest.identity.groups else self._fallback

    def _classification(self, outcome: _Outcome, digest: RequestDigest) -> Classification:
        flow = "" if outcome.flowless else outcome.read(digest)
        schema = outcome.schema
        found = self._flows.get((schema.name, flow))
        if found is None or found.level != schema.level:  # a fallback may have the name of a schema
            entropy = 0 if outcome.flowless else self._hash_flow(schema.name, flow)
            found = Classification(schema.name, schema.level, flow, entropy)
            if len(flow) <= LONGEST_FLOW:
                self._flows.put((schema.name, flow), found)
        return found


def _in_order(schemas: Iterable[FlowSchema]) -> tuple[FlowSchema, ...]:
    """Return the schemas by precedence and name; names must differ, because flows are told apart by them."""
    seen = set()
    listed = tuple(schemas)
    for schema in listed:
        if not isinstance(schema, FlowSchema):
            raise InvalidValueError("schema", schema, "it must be a FlowSchema")
        if schema.name in seen:
            raise InvalidValueError("name of a schema", schema.name, "another schema has the same")
        seen.add(schema.name)
    return tuple(sorted(listed, key=lambda schema: (schema.precedence, schema.name)))
