"""Warnings about a configuration that is valid."""

from pathlib import Path

import pytest

from apf_middleware.config import load, load_text, read, read_source
from tests.support.linted_documents import ALICE, BOB, EVERYTHING, SERVER, USERS, level, schema, warnings

DATA = Path(__file__).parent / "data"
NAMING = ", queue: {source: header, name: X-Queue}"


def test_a_gate_that_nothing_names_is_reported() -> None:
    gates = "gates: [{name: a, capacity: 1}, {name: b, capacity: 1}]"

    assert warnings(schema("s", 10, ALICE, more=", gates: [a]"), more=gates) == [
        "1 spec.gates[1].name: no schema, route or level names this gate, so it limits no request"
    ]


def test_a_dangling_reference_and_an_unused_level_are_reported() -> None:
    found = warnings(schema("s", 10, ALICE, "nowhere") + level("idle"))

    assert found == [
        "2 spec.level: there is no such level, so this schema is ignored",
        "3 metadata.name: no schema refers to this level, so it only takes seats from the others",
    ]


@pytest.mark.parametrize("hand", [1, 2, 3, 4])
def test_a_hint_about_hands_removes_the_warning(hand: int) -> None:
    text = level("l", f"{{queuing: {{queues: 8, handSize: {hand}}}}}") + schema("s", 10, ALICE, "l", USERS)
    [warning] = read_source(SERVER % 10 + text).warnings

    assert warning.hint == "Take at least 9 queues, with a hand of 4"
    assert warnings(level("l", "{queuing: {queues: 9, handSize: 4}}") + schema("s", 10, ALICE, "l", USERS)) == []


def test_a_misspelt_level_is_suggested() -> None:
    found = read_source(SERVER % 10 + schema("s", 10, ALICE, "bacth") + level("batch")).warnings

    assert [one.hint for one in found] == ["Did you mean batch?", "Add a schema, or remove the level"]


def test_a_rule_for_a_criticality_that_no_header_says_is_reported() -> None:
    rules = "{httpRules: [{paths: [/a]}, {criticality: [sheddable]}]}"
    text = level("batch") + schema("s", 10, rules, "batch")

    [warning] = read_source(SERVER % 10 + text).warnings
    assert warning.field == "spec.rules[0].httpRules[1].criticality"
    assert warning.rule == "without criticality in the Server document, no header is read for it"
    assert read_source(SERVER.replace("defaults", "criticality: {}, defaults") % 10 + text).warnings == ()


def test_less_than_a_seat_is_reported_where_seats_are_rounded_up_beyond_what_the_server_has() -> None:
    """When seats are lent at each dispatch, levels take turns, and together never have more seats than the server."""
    text = level("small", "{shares: 1}") + level("big", "{shares: 94}")
    text += schema("s", 10, ALICE, "small") + schema("b", 20, BOB, "big")
    periodic = SERVER.replace("defaults: none", "defaults: none, borrowing: periodic")

    [warning] = read_source(periodic % 10 + text).warnings
    rule = "its part of 10 seats is 0.1, which is rounded up to 1, so that all levels together may use more than 10"
    assert (warning.place.document, warning.field, warning.rule) == (2, "spec.shares", rule)
    assert read_source(periodic % 100 + text).warnings == ()
    assert warnings(text, seats=10) == []
    [strict] = read_source(
        (SERVER % 10).replace("defaults: none", "defaults: none, strictUpstream: true") + text
    ).warnings
    assert strict.rule == rule


def test_levels_that_lend_all_their_seats_until_an_adjustment_are_reported() -> None:
    """Their requests wait after a pause, even if nobody else is there."""
    text = level("own", "{minSeats: 1}") + level("lent", "{minSeats: 0}") + level("free", "{type: Exempt}")
    text += schema("o", 10, ALICE, "own") + schema("l", 20, BOB, "lent")
    periodic = SERVER.replace("defaults: none", "defaults: none, borrowing: periodic")

    [warning] = [one for one in read_source(periodic % 10 + text).warnings if one.field == "spec.borrowing"]
    rule = "after a pause, requests of levels that lend all their seats (lent) wait up to 10 s for an adjustment"
    assert (warning.place.document, warning.rule) == (1, rule)
    assert not [one for one in read_source(SERVER % 10 + text).warnings if "adjustment" in one.rule]
    many = "".join(level(f"l{n}", "{minSeats: 0}") + schema(f"s{n}", 30 + n, ALICE, f"l{n}") for n in range(9))
    [warning] = [one for one in read_source(periodic % 10 + many).warnings if one.field == "spec.borrowing"]
    assert "(l0, l1, l2, l3, l4, …)" in warning.rule


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ("{maxSeats: 0}", "spec.maxSeats"),
        ("{shares: 0, borrowingLimitPercent: 50}", "spec.shares"),
        ("{shares: 0, borrowingLimitPercent: 50, maxSeats: 1}", None),
        ("{shares: 0}", None),
        ("{maxSeats: 1}", None),
        ("{type: Exempt, shares: 0}", None),
    ],
)
def test_a_level_that_can_never_have_a_seat_is_reported(spec: str, field: str | None) -> None:
    found = warnings(level("l", spec) + schema("s", 10, ALICE, "l"))

    assert found == (
        [f"2 {field}: the level can never have a seat, so none of its requests is served"] if field else []
    )


@pytest.mark.parametrize(
    ("queues", "hand", "expected"), [(64, 6, 0), (16, 4, 0), (16, 1, 1), (8, 8, 1), (200, 1, 0), (1, 1, 0)]
)
def test_a_hand_that_one_heavy_flow_covers_is_reported(queues: int, hand: int, expected: int) -> None:
    text = level("l", f"{{queuing: {{queues: {queues}, handSize: {hand}}}}}") + schema("s", 10, ALICE, "l", USERS)

    assert [one.split(":")[0] for one in warnings(text)] == ["2 spec.queuing.handSize"] * expected


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        (schema("s", 10, ALICE, "l"), 0),
        (schema("s", 10, ALICE, "l") + schema("b", 20, BOB, "l"), 1),
        (schema("s", 10, ALICE, "l") + schema("q", 20, BOB, "catch-all", NAMING), 1),
    ],
    ids=["one flow", "two flows", "flows of requests that name the level"],
)
def test_hands_matter_only_where_flows_meet(schemas: str, expected: int) -> None:
    """A schema without a distinguisher makes one flow of all its requests."""
    found = warnings(level("l", "{queuing: {queues: 8, handSize: 4}}") + schemas)

    assert [one.split(":")[0] for one in found] == ["2 spec.queuing.handSize"] * expected


def test_excessive_guarantees_are_reported_once_at_the_largest() -> None:
    text = level("small", "{minSeats: 4}") + level("big", "{minSeats: 7}") + level("other")
    text += schema("s", 10, ALICE, "small") + schema("b", 20, BOB, "big") + schema("o", 30, EVERYTHING, "other")

    rule = "the mins of all levels (big, small) add up to 11 of 10 seats, so no level can be sure of its min"
    assert [one for one in warnings(text, seats=10) if "minSeats" in one] == [f"3 spec.minSeats: {rule}"]
    assert len(warnings(text, seats=11)) == 1  # nothing is left to the third
    assert warnings(text, seats=12) == []


def test_one_excessive_guarantee_is_enough_for_a_warning() -> None:
    [warning] = warnings(level("big", "{minSeats: 11}") + schema("o", 30, EVERYTHING, "big"), seats=10)

    rule = "the mins of all levels add up to 11 of 10 seats, so no level can be sure of its min"
    assert warning == f"2 spec.minSeats: {rule}"


@pytest.mark.parametrize(
    ("estimate", "server", "expected"),
    [
        ("{seats: 3}", "resolver: web", "seats"),
        ("{seats: 2, finalSeats: 3, linger: 1s}", "resolver: web", "finalSeats"),
        ("{seats: 2}", "resolver: web", None),
        ("{source: learned}", "resolver: web", None),
        ("{seats: 3}", "estimation: {cap: false}", None),
    ],
)
def test_constant_estimates_that_are_always_cut_are_reported(estimate: str, server: str, expected: str | None) -> None:
    text = schema("s", 10, ALICE, "l", f", estimate: {estimate}") + level("l", "{queuing: {queues: exact}}")

    rule = "the level 'l' lets a request have 2 seats, so each is cut to that"
    wanted = [] if expected is None else [f"2 spec.estimate.{expected}: {rule}"]
    assert warnings(text, seats=10, more=server) == wanted


def test_seats_are_not_derived_of_levels_with_errors() -> None:
    text = level("l", "{parent: nobody}") + schema("s", 10, ALICE, "l", ", estimate: {seats: 3}")
    periodic = SERVER.replace("defaults: none", "defaults: none, borrowing: periodic")

    [error] = read_source(periodic % 10 + text).errors
    assert error.field == "spec.parent"


def test_a_level_without_queues_cuts_no_estimate() -> None:
    text = schema("s", 10, ALICE, "l", ", estimate: {seats: 9}") + level("l", "{response: Reject}")

    assert warnings(text, seats=10) == []


@pytest.mark.parametrize(
    ("server", "more", "expected"),
    [
        ("routes: [{path: /a, resource: a, estimate: {seats: 4}}]", "", ["routes[0].estimate.seats"]),
        ("routes: [{path: /a, resource: a, estimate: {seats: 3}}]", "", []),
        ("estimation: {default: {finalSeats: 4, linger: 1s}}", "", ["estimation.default.finalSeats"]),
        ("estimation: {cap: false, default: {seats: 4}}", "", []),
        ("estimation: {default: {source: learned}}", "", []),
        ("estimation: {default: {seats: 4}}", "{response: Reject}", []),
        ("estimation: {default: {seats: 4}}", "{type: Exempt}", ["estimation.default.seats"]),
    ],
)
def test_estimates_of_routes_and_of_the_server_that_every_level_cuts_are_reported(
    server: str, more: str, expected: list[str]
) -> None:
    queues = ", queuing: {queues: exact}"
    text = level("small", f"{{shares: 30{queues}}}") + level("large", f"{{shares: 60{queues}}}")
    text += schema("s", 10, ALICE, "small") + schema("t", 20, BOB, "large")
    if more:
        text += level("other", more) + schema("u", 30, EVERYTHING, "other")

    rule = "levels let a request have 3 seats at most, so each is cut to that or less"
    assert warnings(text, seats=25, more=server) == [f"1 spec.{field}: {rule}" for field in expected]


@pytest.mark.parametrize(
    ("server", "more"),
    [
        ("", level("catch-all", "{shares: 900, queuing: {queues: exact}}")),
        ("", schema("t", 20, BOB, "catch-all")),
        ("queues: {header: X-Queue, groups: [admins]}, ", level("named", "{response: Reject}")),
        ("queues: {header: X-Queue, groups: [admins]}, ", level("named", "{shares: 900, queuing: {queues: exact}}")),
    ],
)
def test_estimates_are_not_reported_if_a_level_that_requests_may_get_to_does_not_cut_them(
    server: str, more: str
) -> None:
    text = level("small", "{shares: 5, queuing: {queues: exact}}") + schema("s", 10, ALICE, "small") + more

    assert warnings(text, seats=25, more=f"{server}estimation: {{default: {{seats: 4}}}}") == []


def weighted(level: str, weights: str = "weight: 2") -> str:
    spec = f"{{level: {level}, distinguisher: {{source: user}}, {weights}, rules: [{ALICE}]}}"
    return f"---\napiVersion: apf/v1\nkind: FlowSchema\nmetadata: {{name: s}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("{type: Exempt}", "is exempt, so its requests never wait and weights have no effect"),
        ("{response: Reject}", "has no queues, so weights have no effect"),
        ("{queuing: {queues: 1, handSize: 1}}", "has one queue for all flows, so weights have no effect"),
        ("{}", "has 64 queues, and flows that meet in one share their mean weight"),
    ],
)
def test_weights_that_have_no_effect_or_another_one_are_reported(spec: str, rule: str) -> None:
    text = level("l", spec)

    assert warnings(text + weighted("l")) == [f"3 spec.weight: the level 'l' {rule}"]
    assert warnings(text + weighted("l", "weight: 1")) == []


@pytest.mark.parametrize(
    ("weights", "field"),
    [
        ("weights: {a: 2}", "weights"),
        ("groupWeights: {a: 2}", "groupWeights"),
        ("weightFunction: builtins:hash", "weightFunction"),
    ],
)
def test_each_kind_of_weights_is_reported_at_its_key(weights: str, field: str) -> None:
    [warning] = warnings(level("l", "{response: Reject}") + weighted("l", weights))

    assert warning.startswith(f"3 spec.{field}: ")


def test_weights_are_right_where_each_flow_has_a_queue() -> None:
    assert warnings(level("l", "{queuing: {queues: exact}}") + weighted("l")) == []
    assert warnings(level("l") + weighted("l", "weight: 2, queue: {source: header, name: X-Queue}")) == []


def test_strict_upstream_ignores_weights() -> None:
    strict = (SERVER % 100).replace("defaults: none", "defaults: none, strictUpstream: true, discipline: equal-serial")
    [warning] = read_source(strict + level("l") + weighted("l")).warnings

    assert (warning.place.document, warning.field, warning.value) == (3, "spec.weight", 2)
    assert warning.rule == "strictUpstream ignores weights, as Kubernetes has none"


def test_defaults_cause_no_warnings() -> None:
    assert read([]).problems == ()
    assert read([], defaults="kubernetes").problems == ()
    assert read([DATA / "kubectl.yaml"]).problems == ()
    assert read([DATA / "kep-example.yaml"]).problems == ()
    assert load(defaults="none").schemas


def test_warnings_wait_until_there_are_no_errors() -> None:
    reading = read_source(schema("s", 10, ALICE, "nowhere") + level("l", "{shares: -1}"))

    assert len(reading.problems) == 1
    assert reading.configuration is None


def test_fields_have_the_names_that_the_document_has() -> None:
    [warning] = warnings(level("big", "{guarantee: 11}") + schema("o", 30, EVERYTHING, "big"), seats=10)

    assert warning.startswith("2 spec.guarantee: the mins of all levels add up to 11")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ("networks: [10.0.0.1, 0.0.0.0/0]", "spec.authentication[1].networks[1]"),
        ("networks: ['::/0'], unix: true", "spec.authentication[1].networks[0]"),
        ("networks: [10.0.0.0/8]", ""),
        ("networks: [0.0.0.0/0], commonNames: [front]", ""),
    ],
)
def test_a_proxy_that_may_be_any_client_is_reported(settings: str, field: str) -> None:
    authentication = f"authentication: [{{type: user}}, {{type: proxy, {settings}}}]"
    found = read_source(f"apiVersion: apf/v1\nkind: Server\nspec: {{{authentication}}}\n").warnings

    assert [one.field for one in found] == ([field] if field else [])
    assert all("each of them can say that it is any user" in one.rule for one in found)


@pytest.mark.parametrize(
    ("networks", "places"),
    [("[10.0.0.0/8, 0.0.0.0/0]", [1]), ("['::/0', '::ffff:0.0.0.0/96']", [0, 1]), ("[10.0.0.1]", [])],
)
def test_trusted_proxies_that_may_be_any_client_are_reported(networks: str, places: list[int]) -> None:
    server = f"apiVersion: apf/v1\nkind: Server\nspec: {{trustedProxies: {{networks: {networks}}}}}\n"
    found = read_source(server).warnings

    assert [one.field for one in found] == [f"spec.trustedProxies.networks[{place}]" for place in places]
    assert all("each of them can say that it has any address" in one.rule for one in found)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ("loadReports: {}", "spec.loadReports"),
        ("loadReports: {header: text}", "spec.loadReports"),
        ("loadReports: {header: null, forEverybody: true}", "spec.loadReports"),
        ("loadReports: {header: null}, trustedProxies: {unix: true}", "spec.loadReports"),
        ("loadReports: {header: text, forEverybody: true}", ""),
        ("loadReports: {path: /load}", ""),
        ("loadReports: {}, trustedProxies: {unix: true}", ""),
        ("deadlines: {extendTo: 1m}", "spec.deadlines.extendTo"),
        ("deadlines: {extendTo: 1m, groups: [gateways]}", ""),
        ("deadlines: {extendTo: 1m}, trustedProxies: {networks: [10.0.0.0/8]}", ""),
        ("deadlines: {}", ""),
        ("admin: {}", "spec.admin"),
        ("admin: {console: true}", "spec.admin"),
        ("admin: null", ""),
        ("admin: {groups: [support]}", ""),
        ("admin: {operators: [sre]}", ""),
        ("admin: {socket: /run/shop}", ""),
        ("admin: {app: shop}", ""),
    ],
)
def test_a_server_setting_without_effect_is_reported(settings: str, field: str) -> None:
    found = read_source(f"apiVersion: apf/v1\nkind: Server\nspec: {{{settings}}}\n").warnings

    assert [one.field for one in found] == ([field] if field else [])


RESOURCES = "{resourceRules: [{verbs: ['*'], apiGroups: [%s], resources: [%s], namespaces: ['*']}]}"
ROUTE = "routes: [{path: '/t/{namespace}/{id}', resource: orders}, {path: /x, resource: orders, subresource: log}]"


@pytest.mark.parametrize(
    ("rule", "settings", "expected"),
    [
        (RESOURCES % ("''", "orders"), "", True),
        (RESOURCES % ("''", "'*'"), "", True),
        (RESOURCES % ("''", "order"), ROUTE, True),
        (RESOURCES % ("shop", "orders"), ROUTE, True),
        (RESOURCES % ("''", "orders"), ROUTE, False),
        (RESOURCES % ("'*'", "orders/log"), ROUTE, False),
        (RESOURCES % ("shop, ''", "'*'"), ROUTE, False),
        (RESOURCES % ("''", "orders"), "resolver: kubernetes", False),
        (RESOURCES % ("''", "orders") + ", {httpRules: [{}]}", "", False),
    ],
)
def test_a_schema_for_resources_that_no_route_names_is_reported(rule: str, settings: str, *, expected: bool) -> None:
    found = warnings(schema("s", 10, rule), more=settings)

    rule = "its rules are for resources, and no route is one of these"
    assert found == ([f"2 metadata.name: this schema never matches: {rule}"] if expected else [])


@pytest.mark.parametrize(
    ("source", "settings", "missing"),
    [
        ("source: namespace", "", "no route has a {namespace}"),
        ("source: namespace", ROUTE, ""),
        ("source: namespace", "resolver: kubernetes", ""),
        ("source: pathParameter, name: tenant", "", ""),
        ("source: pathParameter, name: id", ROUTE, ""),
        ("source: pathParameter, name: tennant", ROUTE, "neither a path of its rules nor a route has {tennant}"),
        ("source: header, name: tennant", "", ""),
    ],
)
def test_a_distinguisher_by_a_parameter_that_no_path_has_is_reported(source: str, settings: str, missing: str) -> None:
    rule = "{httpRules: [{paths: ['/a/{tenant}/*']}]}, {httpRules: [{}]}"
    found = warnings(schema("s", 10, rule, more=f", distinguisher: {{{source}}}"), more=settings)

    told = f"2 spec.distinguisher.source: {missing}, so all requests of this schema are one flow"
    assert found == ([told] if missing else [])


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ("{subjects: [{user: bob}, {group: 'tenant:*'}], httpRules: [{}]}", "subjects[1]"),
        ("{subjects: [{user: 'bob*'}], httpRules: [{}]}", "subjects[0]"),
        (RESOURCES % ("''", "pods, 'pods/*'"), "resourceRules[0].resources[1]"),
        (RESOURCES % ("'*.example.com'", "pods"), "resourceRules[0].apiGroups[0]"),
        ("{subjects: [{group: '*'}, {serviceAccount: {namespace: a, name: '*'}}], httpRules: [{}]}", ""),
        (RESOURCES % ("'*'", "'*'"), ""),
    ],
)
def test_a_star_that_is_no_wildcard_is_reported(rule: str, field: str) -> None:
    found = warnings(schema("s", 10, rule), more="resolver: kubernetes")

    told = "only '*' alone is a wildcard here, so this is one name, and matches no other"
    assert found == ([f"2 spec.rules[0].{field}: {told}"] if field else [])


KUBERNETES = """\
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: orders}
spec:
  matchingPrecedence: 10
  priorityLevelConfiguration: {name: exempt}
  distinguisherMethod: {type: ByNamespace}
  rules:
  - subjects: [{kind: User, user: {name: "*"}}]
    resourceRules: [{verbs: ["*"], apiGroups: [""], resources: [orders], namespaces: ["*"]}]
"""


def test_routes_are_read_beside_manifests_and_reported_where_they_are_not() -> None:
    server = f"apiVersion: apf/v1\nkind: Server\nspec: {{{ROUTE}%s}}\n"
    [warning] = read_source(server % ", resolver: kubernetes" + KUBERNETES).warnings

    assert load_text(server % "" + KUBERNETES).server.resolver == "web"
    assert load_text(server % ", defaults: kubernetes").server.resolver == "web"
    assert load_text(KUBERNETES).server.resolver == "kubernetes"
    assert (warning.field, warning.hint) == ("spec.routes", "Write resolver: web, or remove the routes")
    assert read_source(server % ", resolver: web" + KUBERNETES).warnings == ()


def test_the_fields_of_manifests_are_named_as_they_are_written() -> None:
    found = read_source(SERVER.replace("defaults", "resolver: web, defaults") % 10 + KUBERNETES).warnings

    assert [(one.field, one.value) for one in found] == [
        ("metadata.name", "orders"),
        ("spec.distinguisherMethod.type", "ByNamespace"),
    ]
