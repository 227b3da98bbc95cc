"""The classifier: from a request's digest to schema, level and flow.

The first schema that accepts the request wins, by precedence and then by name. If none does, a fallback takes the
request, so that every request has exactly one level. The fallback is the schema ``catch-all``, or one of the KEP's two
backstops, which are for the group system:masters and for all others.

A *plan* lists the schemas that can accept requests of one identity. They are grouped by the resource, or the first
segment of the path, that they name. For each resource or first segment, a plan lists the compiled rules
(*alternatives*) up to the first one that accepts everything, so most plans are short. An index by user, group and
service-account namespace gives the schemas that name an identity, so a new identity is only compared with these.

Three caches make the classifier fast. Each is bounded in entries and in the length of its keys, because clients choose
paths, headers and names. Decisions are cached by exactly those facts that any rule reads: usually caller, verb and
path, or caller, verb and resource. Plans are cached by identity, so that a new path is only compared with schemas that
can match that identity. Flows are cached with their hash and their weight. Where a flow or its weight depends on facts
outside of the key, such as a header, the schema is cached and only flow and weight are computed again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.classification.decision_keys import DecisionKeys
from apf_middleware.classification.digest import Identity, RequestDigest
from apf_middleware.classification.distinguisher import compile_distinguisher, depends_only_on_identity_and_resource
from apf_middleware.classification.matching import NO_RESOURCE, SERVICE_ACCOUNT, why_not
from apf_middleware.classification.predicates import Predicate, compile_rule
from apf_middleware.classification.rules import (
    Conjunction,
    Field,
    GroupSubject,
    Operator,
    Rule,
    ServiceAccountSubject,
    UserSubject,
)
from apf_middleware.classification.schema import Classification, FlowSchema
from apf_middleware.classification.text import LONGEST_FLOW, abridge
from apf_middleware.classification.weight_lookup import compile_flow_weight, compile_request_weight
from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError, require_integer

if TYPE_CHECKING:
    from apf_middleware.classification.predicates import Alternative

__all__ = ["LONGEST_IDENTITY", "LONGEST_KEY", "MASTERS", "Classifier", "Explanation"]

MASTERS: Final = "system:masters"
"""The group that may have a fallback of its own."""

LONGEST_KEY: Final = 1024
"""The maximum length of the facts of a cached decision (path, host, headers…), in characters."""

LONGEST_IDENTITY: Final = 2048
"""The maximum length of the name, UID and groups of a cached identity, in characters."""

_EVERYBODY = "everybody"
_PLANS_SHARED = 1024  # distinct sets of alternatives; identities with the same set share its `_Steps`
_Key = tuple[str, str]  # the kind of subject, and its name
_Step = tuple[int, Predicate | None]
_NamedStep = tuple[int, Predicate | None, frozenset[str] | None]
_NUMBER: Final = itemgetter(0)  # a lambda would make the compiled build create an object in each call around it


@dataclass(frozen=True, slots=True)
class Explanation(Value):
    """A classification, and the reasons why the schemas tried before didn't accept the request."""

    classification: Classification
    passed_over: tuple[tuple[str, str], ...]  # the schema's name, and why not
    fallback: bool  # no schema accepted it


class _Steps:
    """Alternatives in the order of their schemas.

    Those for one name, which is a resource or the first segment of a path, are selected when they are first needed.
    """

    __slots__ = ("_by_name", "_merged", "_unnamed")

    def __init__(self, steps: Iterable[_NamedStep]) -> None:
        unnamed: list[_Step] = []
        self._by_name: dict[str, list[_Step]] = {}
        for number, test, names in steps:
            if names is None:
                unnamed.append((number, test))
                if test is None:
                    break  # this alternative accepts every request, so later ones are never tried
            for name in names or ():
                self._by_name.setdefault(name, []).append((number, test))
        self._unnamed = tuple(unnamed)
        # at most one entry for each name in the rules
        self._merged: dict[str, tuple[_Step, ...]] = {}

    def named(self, name: str) -> tuple[_Step, ...]:
        """Return the alternatives for a request with this name."""
        merged = self._merged.get(name)
        if merged is not None:
            return merged
        own = self._by_name.get(name)
        if own is None:
            return self._unnamed  # not cached: clients can invent such names
        merged = self._merged[name] = tuple(sorted([*own, *self._unnamed], key=_NUMBER))
        return merged


class _Side:
    """The alternatives of all schemas, either for requests about resources or for all other requests."""

    __slots__ = ("_alternatives", "_of_schema", "_shared")

    def __init__(self, schemas: Sequence[FlowSchema], *, about_resource: bool) -> None:
        self._alternatives: list[tuple[int, Alternative]] = []
        self._of_schema: list[range] = []
        for number, schema in enumerate(schemas):
            first = len(self._alternatives)
            compiled = (compile_rule(rule, about_resource=about_resource) for rule in schema.rules)
            self._alternatives += [(number, alternative) for alternative in compiled if alternative is not None]
            self._of_schema.append(range(first, len(self._alternatives)))
        self._shared: BoundedCache[tuple[int, ...], _Steps] = BoundedCache(_PLANS_SHARED)

    def steps(self, candidates: Iterable[int], identity: Identity) -> _Steps:
        """Return the steps of these schemas for this identity; identities with the same steps share them."""
        chosen: list[int] = []
        for schema in candidates:
            for place in self._of_schema[schema]:
                if self._alternatives[place][1].guard(identity):
                    chosen.append(place)  # noqa: PERF401 - a comprehension is one more call for each schema
        key = tuple(chosen)
        steps = self._shared.get(key)
        if steps is None:
            listed = (self._alternatives[place] for place in chosen)
            steps = _Steps((number, one.test, one.names) for number, one in listed)
            self._shared.put(key, steps)
        return steps


@dataclass(slots=True, eq=False)
class _Plan:
    """The schemas that can accept requests of one identity."""

    about_resource: _Steps
    others: _Steps

    def first(self, digest: RequestDigest) -> int | None:
        """Return the number of the first schema that accepts the request."""
        about = digest.resource
        if about is None:
            about = NO_RESOURCE
            path = digest.path
            end = path.find("/", 1)
            steps = self.others.named(path[1:] if end < 0 else path[1:end])
        else:
            steps = self.about_resource.named(about.resource)
        # Steps are in the order of precedence, so that the first one that holds decides.
        for number, test in steps:
            if test is None or test(digest, about):
                return number
        return None


class _SchemaIndex:
    """Schemas in order of precedence, by the subjects that they name."""

    __slots__ = ("_about_resource", "_longest_account", "_numbers", "_others")

    def __init__(self, schemas: Sequence[FlowSchema]) -> None:
        self._about_resource = _Side(schemas, about_resource=True)
        self._others = _Side(schemas, about_resource=False)
        self._numbers: dict[_Key, list[int]] = {}
        for number, schema in enumerate(schemas):
            for key in {key for rule in schema.rules for key in _keys_of(rule)}:
                self._numbers.setdefault(key, []).append(number)
        self._longest_account = max((len(name) for kind, name in self._numbers if kind == "account"), default=0)

    def plan(self, identity: Identity) -> _Plan:
        """Return the plan for an identity."""
        keys = [(_EVERYBODY, ""), ("user", identity.name), *(("group", group) for group in identity.groups)]
        if identity.name.startswith(SERVICE_ACCOUNT):
            # A namespace normally has no colon, but a subject may name one with colons, so each is tried as the end.
            end = identity.name.find(":", len(SERVICE_ACCOUNT)) + 1
            while 0 < end <= self._longest_account:
                keys.append(("account", identity.name[:end]))
                end = identity.name.find(":", end) + 1
        # numbers are in the order of precedence
        candidates = sorted({number for key in keys for number in self._numbers.get(key, ())})
        return _Plan(self._about_resource.steps(candidates, identity), self._others.steps(candidates, identity))


def _keys_of(rule: Rule | Conjunction) -> set[_Key]:
    """Return the keys of the rule in the index: each identity that it can accept has at least one of them."""
    if isinstance(rule, Conjunction):
        return _keys_of_conjunction(rule)
    keys: set[_Key] = set()
    for subject in rule.subjects:
        # A service account is a user with a name made of the account's namespace and name, as in Kubernetes.
        if isinstance(subject, ServiceAccountSubject):
            beginning = f"{SERVICE_ACCOUNT}{subject.namespace}:"
            keys.add(("account", beginning) if subject.name == "*" else ("user", beginning + subject.name))
        elif subject.name == "*":
            keys.add((_EVERYBODY, ""))
        elif isinstance(subject, UserSubject | GroupSubject):
            keys.add(("user" if isinstance(subject, UserSubject) else "group", subject.name))
    return keys


def _keys_of_conjunction(conjunction: Conjunction) -> set[_Key]:
    """Return the keys of the first test that requires certain names or groups; every accepted identity has one."""
    for test in conjunction.tests:
        if test.inverted or test.operator is Operator.PATTERN_MATCH or test.field not in {Field.USER, Field.GROUPS}:
            continue
        kind = "user" if test.field is Field.USER else "group"
        # SUPER_SET requires all values among the caller's groups, so any one value suffices as a key.
        values = test.values[:1] if test.operator is Operator.SUPER_SET else test.values
        return {(kind, value) for value in values}
    return {(_EVERYBODY, "")}


class _Outcome:
    """The schema that a decision ends with, compiled.

    ``weigh_request`` is None unless weights depend on more than the flow. A level without flows needs no weights.
    """

    __slots__ = ("flowless", "read", "schema", "settled", "weigh_flow", "weigh_request")

    def __init__(self, schema: FlowSchema, *, flowless: bool) -> None:
        self.schema = schema
        self.flowless = flowless
        self.read = compile_distinguisher(schema)
        self.weigh_flow = None if flowless else compile_flow_weight(schema)
        self.weigh_request = None if flowless else compile_request_weight(schema)
        # A function may read anything. The caller's groups are part of the key of each decision.
        weighs_by_function = schema.weights is not None and schema.weights.function is not None
        self.settled = flowless or (
            not weighs_by_function and depends_only_on_identity_and_resource(schema.distinguisher)
        )


class Classifier:
    """Classifies requests by flow schemas.

    ``hash_flow`` hashes a schema's name and a distinguisher to 64 bits. ``fallback`` takes the requests that no schema
    accepts, and ``masters_fallback``, if given, those of system:masters. As fallbacks, both take every such request:
    their rules are ignored. If one is also among ``schemas``, its rules apply there as usual. In ``flowless_levels``,
    which have at most one queue, flows don't matter: the distinguisher is empty and the entropy is 0, as in Kubernetes.
    """

    __slots__ = (
        "_decisions",
        "_fallback",
        "_flows",
        "_hash_flow",
        "_index",
        "_keys",
        "_masters_fallback",
        "_outcomes",
        "_plans",
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
        self._index = _SchemaIndex(self.schemas)
        self._outcomes = [_Outcome(schema, flowless=schema.level in flowless) for schema in self.schemas]
        self._fallback = _Outcome(fallback, flowless=fallback.level in flowless)
        masters = masters_fallback or fallback
        self._masters_fallback = _Outcome(masters, flowless=masters.level in flowless)
        self._keys = DecisionKeys(self.schemas)
        self._decisions: BoundedCache[tuple[object, ...], Classification | _Outcome] = BoundedCache(remembered)
        self._plans: BoundedCache[tuple[object, ...], _Plan] = BoundedCache(remembered)
        self._flows: BoundedCache[tuple[_Outcome, str], Classification] = BoundedCache(remembered)

    def __repr__(self) -> str:
        return f"Classifier: {len(self.schemas)} schemas, {len(self._decisions)} decisions remembered"

    def classify(self, digest: RequestDigest) -> Classification:
        """Return the schema, level and flow of this request."""
        key = self._keys.of(digest)
        found = self._decisions.get(key)
        if found is None:
            return self._decide(digest, key)
        # For an outcome, the flow must still be computed.
        return self._classification(found, digest) if isinstance(found, _Outcome) else found

    def decide(self, digest: RequestDigest) -> Classification:
        """Classify without the cache of decisions, for callers that cache the result themselves."""
        return self._classification(self._outcome(self._plan(digest.identity)[0], digest), digest)

    def explain(self, digest: RequestDigest) -> Explanation:
        """Return the classification and an explanation for people; this is slow."""
        passed_over = []
        for schema in self.schemas:
            reason = why_not(schema, digest)
            if reason is None:
                break
            passed_over.append((schema.name, reason))
        return Explanation(self.classify(digest), tuple(passed_over), len(passed_over) == len(self.schemas))

    def _decide(self, digest: RequestDigest, key: tuple[object, ...]) -> Classification:
        """Classify a request without a cached decision, and cache the decision."""
        plan, short = self._plan(digest.identity)
        outcome = self._outcome(plan, digest)
        classification = self._classification(outcome, digest)
        if short and _length(key) <= LONGEST_KEY:
            self._decisions.put(key, classification if outcome.settled else outcome)
        return classification

    def _plan(self, identity: Identity) -> tuple[_Plan, bool]:
        """Return the plan for an identity, and whether it is short enough to be cached."""
        # If no rule reads UIDs, identities that differ only in the UID share a plan.
        key = (
            (identity.name, identity.groups, identity.uid)
            if self._keys.include_uid
            else (identity.name, identity.groups)
        )
        plan = self._plans.get(key)
        if plan is not None:
            return plan, True
        plan = self._index.plan(identity)
        length = len(identity.name) + len(identity.uid) + sum(map(len, identity.groups)) + len(identity.groups)
        if length <= LONGEST_IDENTITY:
            self._plans.put(key, plan)
        return plan, length <= LONGEST_IDENTITY

    def _outcome(self, plan: _Plan, digest: RequestDigest) -> _Outcome:
        """Return the first schema of the plan that accepts the request, or a fallback."""
        number = plan.first(digest)
        if number is not None:
            return self._outcomes[number]
        return self._masters_fallback if MASTERS in digest.identity.groups else self._fallback

    def _classification(self, outcome: _Outcome, digest: RequestDigest) -> Classification:
        flow = "" if outcome.flowless else outcome.read(digest)
        schema = outcome.schema
        # The key has the outcome, not the schema's name, because a fallback may have the name of another schema.
        found = self._flows.get((outcome, flow))
        if found is None:
            entropy = 0 if outcome.flowless else self._hash_flow(schema.name, flow)
            weight = 1.0 if outcome.weigh_flow is None else outcome.weigh_flow(flow)
            is_short = len(flow) <= LONGEST_FLOW
            name = flow if is_short else abridge(flow)
            found = Classification(schema.name, schema.level, name, entropy, weight)
            if is_short:
                self._flows.put((outcome, flow), found)
        if outcome.weigh_request is not None:
            own = outcome.weigh_request(digest)
            if own is not None and own != found.weight:
                return Classification(found.schema, found.level, found.flow, found.entropy, own)
        return found


def _length(key: tuple[object, ...]) -> int:
    """Return the length of the facts in a key, without name and groups, which aren't too long if the plan is cached."""
    length = 0
    for place in range(2, len(key)):
        length += len(key[place])  # type: ignore[arg-type]  # all have lengths
    return length


def _in_order(schemas: Iterable[FlowSchema]) -> tuple[FlowSchema, ...]:
    """Return the schemas by precedence and name; names must be unique, because they identify flows."""
    seen = set()
    listed = tuple(schemas)
    for schema in listed:
        if not isinstance(schema, FlowSchema):
            raise InvalidValueError("schema", schema, "it must be a FlowSchema")
        if schema.name in seen:
            raise InvalidValueError("name of a schema", schema.name, "another schema has the same")
        seen.add(schema.name)
    return tuple(sorted(listed, key=lambda schema: (schema.precedence, schema.name)))
