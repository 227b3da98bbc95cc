"""Warnings about valid configurations that may not mean what is intended. Built-in objects cause no warnings."""

import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from operator import itemgetter
from typing import Final

from apf_middleware.classification import Conjunction, FlowSchema, Rule, Source
from apf_middleware.classification.paths import parse_template
from apf_middleware.classification.rules import ServiceAccountSubject
from apf_middleware.config.authentication import ProxySettings
from apf_middleware.config.build import derive_limits, derive_seat_caps
from apf_middleware.config.covering import covers, size_of, takes_everything
from apf_middleware.config.estimation import ConstantEstimate
from apf_middleware.config.flow_weights import given_weights
from apf_middleware.config.formats import Definition
from apf_middleware.config.formats.versions import ASSURED
from apf_middleware.config.level_conflicts import broken_promise, written_key
from apf_middleware.config.merge import MergedObjects, Sourced
from apf_middleware.config.model import MOST_HINTS, report
from apf_middleware.config.objects import Configuration, Level
from apf_middleware.config.problems import Path, Problems
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.settings import Violation
from apf_middleware.config.suggested import mandatory
from apf_middleware.config.values import network
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.fairqueuing.shuffle import collision_probabilities
from apf_middleware.wording import plural

__all__ = ["MOST_COMPARED", "NOTICEABLE", "lint_objects", "rounds_beyond"]

NOTICEABLE: Final = 0.01
"""There is a warning if one heavy flow fills the whole hand of a light flow with more than this probability."""

_FEWEST_QUEUES: Final = 9
"""With fewer queues, no hand makes the probability small enough."""

MOST_COMPARED: Final = 300_000
"""The limit of pairs of parts of rules that are compared in order to find schemas that never match."""

_ABOUT_CAPS: Final = "Lower it, give the level more seats, or write estimation: {cap: false} in the Server document"

_MOST_NAMED: Final = 5  # levels in one warning

_PATHS: Final[dict[str, dict[str, Path]]] = {
    "kubernetes": {
        "level": ("spec", "priorityLevelConfiguration", "name"),
        "distinguisher": ("spec", "distinguisherMethod", "type"),
        "precedence": ("spec", "matchingPrecedence"),
        "name": ("metadata", "name"),
        "shares": ("spec", "limited", "nominalConcurrencyShares"),
        "hand": ("spec", "limited", "limitResponse", "queuing", "handSize"),
    },
    "kep": {
        "level": ("spec", "requestPriority", "name"),
        "distinguisher": ("spec", "flowDistinguisher", "source"),
        "precedence": ("spec", "matchingPriority"),
        "name": ("meta", "name"),
        "shares": ("spec", "assuredConcurrencyShares"),
        "hand": ("spec", "handSize"),
    },
    "apf": {
        "level": ("spec", "level"),
        "distinguisher": ("spec", "distinguisher", "source"),
        "precedence": ("spec", "precedence"),
        "name": ("metadata", "name"),
        "shares": ("spec", "shares"),
        "min": ("spec", "minSeats"),
        "max": ("spec", "maxSeats"),
        "hand": ("spec", "queuing", "handSize"),
        "seats": ("spec", "estimate", "seats"),
        "finalSeats": ("spec", "estimate", "finalSeats"),
        "weight": ("spec", "weight"),
        "weights": ("spec", "weights"),
        "groupWeights": ("spec", "groupWeights"),
        "weightFunction": ("spec", "weightFunction"),
    },
}


def lint_objects(merged: MergedObjects, problems: Problems) -> None:
    """Add all warnings about the merged objects."""
    _lint_references(merged, problems)
    _lint_order(merged, problems)
    _lint_shares(merged, problems)
    _lint_promises(merged, problems)
    shared = _shared_levels(merged)
    for name, level in merged.levels.items():
        if name in shared:
            _lint_hand(level, problems)
    for schema in merged.schemas:
        _lint_weights(schema, merged, problems)
        _lint_distinguisher(schema, merged.server, problems)
        _lint_stars(schema, problems)
        if merged.server.criticality is None:
            _lint_criticality(schema, problems)
    if merged.server_document is not None:
        _lint_server(merged.server_document, merged.server, problems)
        _lint_trust(merged.server_document, merged.server, problems)
        _lint_gates(merged.server_document, merged.configuration(), problems)
    if not problems.errors:  # seats can't be derived if, for example, there is no parent of a name
        _lint_estimates(merged, problems)
        if merged.server_document is not None:
            _lint_borrowing(merged.server_document, merged, problems)


def _warn(problems: Problems, definition: Definition, key: str, value: object, *, rule: str, hint: str) -> None:
    path = _PATHS[definition.format][key]
    document = definition.document
    if definition.format == "apf":
        path = (*path[:-1], written_key(definition, str(path[-1])))
    version = document.root.get("apiVersion")
    if key == "shares" and version and str(version.value).rpartition("/")[2] in ASSURED:
        path = (*path[:-1], "assuredConcurrencyShares")
    report(document, problems, Violation(path, value, rule, hint), warning=True)


def _lint_references(merged: MergedObjects, problems: Problems) -> None:
    """Warn of schemas without a level, and of levels without a schema."""
    used = {known.thing.level for known in merged.schemas}
    for known in merged.schemas:
        schema = known.thing
        if known.definition and schema.level not in merged.levels:
            rule = "there is no such level, so this schema is ignored"
            known_levels = merged.levels if len(problems) < MOST_HINTS else ()
            close = difflib.get_close_matches(schema.level[:60], known_levels, 1)
            hint = f"Did you mean {close[0]}?" if close else "Add the level, or name another"
            _warn(problems, known.definition, "level", schema.level, rule=rule, hint=hint)
    configuration = merged.configuration()
    if configuration.lets_name_queues:
        used |= merged.levels.keys()  # a request may name any level
    used |= configuration.parents
    ours = {thing.name for thing in mandatory() if isinstance(thing, Level)}
    for name, level in merged.levels.items():
        if level.definition and not level.definition.catch_all and name not in used | ours:
            rule = "no schema refers to this level, so it only takes seats from the others"
            _warn(problems, level.definition, "name", name, rule=rule, hint="Add a schema, or remove the level")


def _lint_order(merged: MergedObjects, problems: Problems) -> None:
    """Warn of schemas that can't match: they have no rules, or an earlier schema takes all of their requests."""
    required = mandatory()
    resources = _resources(merged.server)
    before: list[FlowSchema] = []
    left = MOST_COMPARED
    everything: Sourced[FlowSchema] | None = None
    hidden = sizes = 0
    for known in merged.used_schemas:
        schema = known.thing
        if known.definition and schema not in required:
            hidden += everything is not None
            left -= 0 if everything else sizes * size_of(schema)
            over = everything.thing if everything else _covering(before, schema) if left >= 0 else None
            reason = _reason_never(schema, over, resources)
            if reason:
                key, value, rule, hint = reason
                _warn(problems, known.definition, key, value, rule=f"this schema never matches: {rule}", hint=hint)
        if everything is None and takes_everything(schema):
            everything = known
        before.append(schema)
        sizes += size_of(schema)
    if everything and everything.definition and hidden:
        rule = f"this schema takes every request, so {hidden} later schema{'s' if hidden > 1 else ''} can't match"
        hint = "Give it a higher number than theirs"
        _warn(problems, everything.definition, "precedence", everything.thing.precedence, rule=rule, hint=hint)


def _reason_never(
    schema: FlowSchema, over: FlowSchema | None, resources: AbstractSet[str] | None
) -> tuple[str, object, str, str] | None:
    """Return why no request can match the schema: a key and its value, the rule, and the next step."""
    if over is not None:
        rule = f"{over.name!r} covers it and has the precedence {over.precedence}"
        return "precedence", schema.precedence, rule, "Give it a lower number"
    if not schema.rules:
        return "name", schema.name, "it has no rules", "Add rules, or remove it"
    if resources is None or any(_can_match(rule, resources) for rule in schema.rules):
        return None
    hint = "Add spec.routes to the Server, or resolver: kubernetes if the app has Kubernetes' paths"
    return "name", schema.name, "its rules are for resources, and no route is one of these", hint


def _resources(server: ServerSettings) -> AbstractSet[str] | None:
    """Return all resources that a request can be about; None means any."""
    if server.resolver == "kubernetes":
        return None
    return {f"{one.resource}/{one.subresource}" if one.subresource else one.resource for one in server.routes}


def _can_match(rule: Rule | Conjunction, resources: AbstractSet[str]) -> bool:
    """Return whether the rule is also for requests without a resource, or for one of the ``resources`` of routes."""
    if isinstance(rule, Conjunction) or rule.non_resource_rules or rule.http_rules:
        return True
    return any(
        not {"", "*"}.isdisjoint(one.api_groups)  # resources of routes have no group
        and (bool(resources) if "*" in one.resources else not resources.isdisjoint(one.resources))
        for one in rule.resource_rules
    )


def _covering(before: Sequence[FlowSchema], schema: FlowSchema) -> FlowSchema | None:
    return next((one for one in before if covers(one, schema)), None)


def _lint_shares(merged: MergedObjects, problems: Problems) -> None:
    """Warn of levels that never have a seat, and of shares that are rounded up beyond what the server has.

    Nominal seats are rounded up. Where seats are lent at each dispatch, mins are rounded down instead, so levels with
    shares of less than a seat take turns, and all levels together never have more than the server's seats.
    """
    seats = merged.server.least_total
    exceeds = rounds_beyond(merged.server)
    total = sum(known.thing.shares.shares for known in merged.levels.values())
    for known in merged.levels.values():
        level, shares = known.thing, known.thing.shares.shares
        if known.definition is None or level.exempt:
            continue
        never = "the level can never have a seat, so none of its requests is served"
        hint = "Raise it, or write state: Closed to reject its requests with that reason"
        if level.max_seats == 0:
            _warn(problems, known.definition, "max", 0, rule=never, hint=hint)
        elif level.max_seats is None and not shares and level.shares.borrowing_percent is not None:
            _warn(problems, known.definition, "shares", 0, rule=never, hint=hint)
        elif exceeds and shares and shares * seats < total:
            rule = (
                f"its part of {seats} seats is {shares * seats / total:.2g}, which is rounded up to 1, so that all"
                f" levels together may use more than {seats}"
            )
            hint = f"Give it at least {-(-total // seats)} of the {total} shares, or the server more seats"
            _warn(problems, known.definition, "shares", shares, rule=rule, hint=hint)


def rounds_beyond(server: ServerSettings) -> bool:
    """Return whether nominal seats, which are rounded up, may all be in use at once."""
    return server.borrowing == "periodic" or server.strict_upstream


def _lint_promises(merged: MergedObjects, problems: Problems) -> None:
    """Warn, at the level with the largest min, if the absolute mins add up to all seats or more."""
    mins = {name: known.thing.min_seats or 0 for name, known in merged.levels.items() if known.thing.parent is None}
    rule = broken_promise(mins, merged.server.least_total, "level")
    if rule:
        most = merged.levels[max(mins, key=mins.__getitem__)]
        if most.definition is not None:
            hint = "Lower it, or give the server more seats"
            _warn(problems, most.definition, "min", most.thing.min_seats, rule=rule, hint=hint)


def _lint_estimates(merged: MergedObjects, problems: Problems) -> None:
    """Warn of schemas with a constant estimate of more seats than their levels let one request have."""
    configuration = merged.configuration()
    if not merged.server.estimation.cap:
        return
    caps = derive_seat_caps(configuration)
    for known in merged.schemas:
        name, cap = known.thing.level, caps.get(known.thing.level, 0)
        excess = _excess(configuration.estimates.get(known.thing.name), cap)
        if known.definition is not None and excess is not None:
            rule = f"the level {name!r} lets a request have {plural(cap, 'seat')}, so each is cut to that"
            _warn(problems, known.definition, *excess, rule=rule, hint=_ABOUT_CAPS)
    if merged.server_document is not None:
        _lint_common_estimates(merged.server_document, merged, caps, problems)


def _lint_common_estimates(
    document: Document, merged: MergedObjects, caps: Mapping[str, int], problems: Problems
) -> None:
    """Warn of routes, and of a default, with a constant estimate of more seats than every level lets a request have."""
    configuration, required = merged.configuration(), mandatory()
    # The mandatory catch-all usually gets hardly any requests.
    used = {known.thing.level for known in merged.schemas if known.thing not in required}
    limits = [
        caps[name]
        for name, level in configuration.working_levels.items()
        if not level.exempt and (caps[name] or name in used or configuration.lets_name_queues)
    ]
    cap = max(limits) if limits and all(limits) else 0
    estimation = ("estimation", "default"), merged.server.estimation.default
    routes = ((("routes", place, "estimate"), route.estimate) for place, route in enumerate(merged.server.routes))
    for path, estimate in (estimation, *routes):
        excess = _excess(estimate, cap)
        if excess is not None:
            rule = f"levels let a request have {plural(cap, 'seat')} at most, so each is cut to that or less"
            _warn_in(document, problems, rule, _ABOUT_CAPS, *path, excess[0])


def _excess(estimate: object, cap: int) -> tuple[str, int] | None:
    """Return the key and the number of a constant estimate's seats, if they are more than a cap; 0 is none."""
    if not cap or not isinstance(estimate, ConstantEstimate):
        return None
    found = max(("seats", estimate.seats), ("finalSeats", estimate.final_seats), key=itemgetter(1))
    return found if found[1] > cap else None


def _shared_levels(merged: MergedObjects) -> Collection[str]:
    """Return the levels in which different flows may meet; all requests of a schema may be one flow."""
    if merged.configuration().lets_name_queues:
        return merged.levels.keys()
    schemas = [known.thing for known in merged.schemas]
    users = Counter(schema.level for schema in schemas)
    return {one.level for one in schemas if one.distinguisher is not None or users[one.level] > 1}


def _lint_hand(known: Sourced[Level], problems: Problems) -> None:
    """Warn of hands and decks with which one heavy flow is likely to fill a light flow's whole hand."""
    queuing = known.thing.queuing
    if known.definition is None or queuing is None or queuing.queues == 1 or queuing.exact:
        return  # one queue isn't meant to keep flows apart, and exact queues do
    likely = collision_probabilities(queuing.queues, queuing.hand_size, 1)[0]
    if likely > NOTICEABLE:
        rule = f"with {queuing.queues} queues, one heavy flow fills all queues of {likely:.0%} of the light flows"
        hint = f"Take at least {_FEWEST_QUEUES} queues, with a hand of 4"
        if queuing.queues >= _FEWEST_QUEUES:
            hint = "Take more queues, or a hand between 4 and half of the queues"
        _warn(problems, known.definition, "hand", queuing.hand_size, rule=rule, hint=hint)


def _lint_weights(known: Sourced[FlowSchema], merged: MergedObjects, problems: Problems) -> None:
    """Warn of a schema with weights that have no effect in its level, or not exactly the one that is meant."""
    schema = known.thing
    given = given_weights(schema.weights)
    level = merged.levels.get(schema.level)
    if known.definition is None or not given or level is None:
        return
    rule, hint = _effect_of_weights(level.thing, named=schema.queue is not None)
    if merged.server.strict_upstream:
        rule, hint = "strictUpstream ignores weights, as Kubernetes has none", "Remove strictUpstream, or the weights"
    if rule:
        key, value = next(iter(given.items()))
        _warn(problems, known.definition, key, value, rule=rule, hint=hint)


def _lint_distinguisher(known: Sourced[FlowSchema], server: ServerSettings, problems: Problems) -> None:
    """Warn of a distinguisher by a parameter that no path has, so that all requests of the schema are one flow."""
    found, routed = known.thing.distinguisher, server.resolver == "web"
    if known.definition is None or found is None:
        return
    paths = [route.path for route in server.routes] if routed else []
    rules = [rule for rule in known.thing.rules if isinstance(rule, Rule)]
    if found.source is Source.NAMESPACE and routed:
        name, where = "namespace", "no route has a {namespace}"
        hint = "Add one to spec.routes, or, for paths of rules, write {source: pathParameter, name: namespace}"
    elif found.source is Source.PATH_PARAMETER:
        name, where = found.argument, f"neither a path of its rules nor a route has {{{found.argument}}}"
        hint = "Write the name of a parameter of these paths"
        paths += [path for rule in rules for http in rule.http_rules for path in http.paths]
    else:
        return
    if not any(name in parse_template(path).parameters for path in paths):
        rule = f"{where}, so all requests of this schema are one flow"
        written = "ByNamespace" if known.definition.format == "kubernetes" else found.source
        _warn(problems, known.definition, "distinguisher", written, rule=rule, hint=hint)


def _lint_criticality(known: Sourced[FlowSchema], problems: Problems) -> None:
    """Warn of the first rule for a criticality that no header can say."""
    for number, rule in enumerate(known.thing.rules if known.definition else ()):
        for place, http in enumerate(rule.http_rules if isinstance(rule, Rule) else ()):
            if known.definition and http.criticality:
                path: Path = ("spec", "rules", number, "httpRules", place, "criticality")
                told = "without criticality in the Server document, no header is read for it"
                found = Violation(path, [*http.criticality], told, "Add criticality: {} there")
                report(known.definition.document, problems, found, warning=True)
                return


def _lint_stars(known: Sourced[FlowSchema], problems: Problems) -> None:
    """Warn of the first name with a star in it: unlike those of a distinguisher, it is no pattern."""
    for steps, name in _names(known.thing) if known.definition else ():
        if known.definition and "*" in name and name != "*":
            rule = "only '*' alone is a wildcard here, so this is one name, and matches no other"
            found = Violation(("spec", "rules", *steps), name, rule, "Write each name, or '*' for all")
            report(known.definition.document, problems, found, warning=True)
            return


def _names(schema: FlowSchema) -> Iterator[tuple[Path, str]]:
    """Yield the names of callers and resources in the rules, each with its path in them."""
    for number, rule in enumerate(schema.rules):
        if isinstance(rule, Rule):
            for place, subject in enumerate(rule.subjects):
                if not isinstance(subject, ServiceAccountSubject):  # whose names are checked
                    yield (number, "subjects", place), subject.name
            for place, one in enumerate(rule.resource_rules):
                for key, names in (("apiGroups", one.api_groups), ("resources", one.resources)):
                    for index, name in enumerate(names):
                        yield (number, "resourceRules", place, key, index), name


def _effect_of_weights(level: Level, *, named: bool) -> tuple[str, str]:
    """Return what prevents the effect of weights in this level, and the next step; both are empty if nothing does.

    If requests name their level (``named``), most of them go to other levels.
    """
    queuing, remove = level.queuing, "Remove the weights, or name a level with exact queues"
    if named:
        return "", ""
    if level.exempt:
        return f"the level {level.name!r} is exempt, so its requests never wait and weights have no effect", remove
    if queuing is None:
        return f"the level {level.name!r} has no queues, so weights have no effect", remove
    if queuing.exact:
        return "", ""
    if queuing.queues == 1:
        return f"the level {level.name!r} has one queue for all flows, so weights have no effect", remove
    rule = f"the level {level.name!r} has {queuing.queues} queues, and flows that meet in one share their mean weight"
    return rule, "Write 'queues: exact' in queuing, so that each flow has a queue and its own weight"


def _lint_server(document: Document, server: ServerSettings, problems: Problems) -> None:
    """Warn of settings of the Server document that have no effect."""
    warn = partial(_warn_in, document, problems)
    reports, deadlines, has_proxies = server.load_reports, server.deadlines, server.trusted_proxies.trust_any
    if reports is not None and not reports.path:
        if reports.header is None:
            rule = "nobody gets a load report, because there is neither a header nor a path"
            warn(rule, "Add path: /load, or remove header: null", "loadReports")
        elif not (reports.for_everybody or has_proxies):
            rule = "nobody gets a load report, because only trusted proxies would, and there are none"
            warn(rule, "Name them in spec.trustedProxies, or add path: /load or forEverybody: true", "loadReports")
    if deadlines is not None and deadlines.extend_to_ns is not None and not (deadlines.groups or has_proxies):
        rule = "nobody may extend a deadline, because there are no groups and no trusted proxies"
        warn(rule, "Name them in spec.deadlines.groups or spec.trustedProxies", "deadlines", "extendTo")
    spec = document.root.get("spec")
    admin = spec.get("admin") if spec else None
    if admin and admin.value is not None and not (server.admin.is_on or server.admin.socket or admin.get("app")):
        rule = "nobody has access to the admin, because there are no groups and no operators"
        warn(rule, "Name groups that may view, or operators that may also change something", "admin")
    if server.resolver == "kubernetes" and not all(one.gates or one.estimate for one in server.routes):
        rule = "resolver: kubernetes reads paths as an API server does, so that the resources of routes have no effect"
        warn(rule, "Write resolver: web, or remove the routes", "routes")


def _lint_gates(document: Document, configuration: Configuration, problems: Problems) -> None:
    """Warn of gates of the Server document that no request passes."""
    for place, gate in enumerate(configuration.server.gates):
        if gate.name not in configuration.named_gates:
            rule = "no schema, route or level names this gate, so it limits no request"
            _warn_in(document, problems, rule, "Name it in their gates, or remove it", "gates", place, "name")


def _lint_borrowing(document: Document, merged: MergedObjects, problems: Problems) -> None:
    """Warn of levels that have no seats after each pause, because they lend all of theirs until an adjustment."""
    if merged.server.borrowing != "periodic":
        return
    configuration = merged.configuration()
    used = {schema.level for schema in configuration.schemas}
    names = [
        name
        for name, limits in derive_limits(configuration).items()
        if name in used and not limits.min and limits.max and not configuration.levels[name].exempt
    ]
    if names:
        shown = ", ".join((*names[:_MOST_NAMED], *["…"][: len(names) - _MOST_NAMED]))
        rule = (
            f"after a pause, requests of levels that lend all their seats ({shown}) wait up to 10 s for an adjustment"
        )
        _warn_in(document, problems, rule, "Give these levels minSeats, or write borrowing: immediate", "borrowing")


def _lint_trust(document: Document, server: ServerSettings, problems: Problems) -> None:
    """Warn of trusted proxies, or of authentication by a proxy, with a network that contains all clients."""
    for number, text in enumerate(server.trusted_proxies.networks):
        if not network("networks", text).prefixlen:
            rule = "all clients are in this network, so each of them can say that it has any address"
            _warn_in(document, problems, rule, "Name the proxies' networks", "trustedProxies", "networks", number)
    for place, one in enumerate(server.authentication):
        if isinstance(one, ProxySettings) and not one.common_names:
            for number, text in enumerate(one.networks):
                if not network("networks", text).prefixlen:
                    rule = "all clients are in this network, so each of them can say that it is any user"
                    steps = "authentication", place, "networks", number
                    _warn_in(document, problems, rule, "Name the proxy's address", *steps)


def _warn_in(document: Document, problems: Problems, rule: str, hint: str, *steps: str | int) -> None:
    """Warn of the value at these steps in the spec of a document."""
    path: Path = ("spec", *steps)
    report(document, problems, Violation(path, document.root.written(path), rule, hint), warning=True)
