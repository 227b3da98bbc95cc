"""Our own form: what it can say, and what is wrong with what it can't."""

import pytest

from apf_middleware.classification import Distinguisher, FlowSchema, Source
from apf_middleware.classification.rules import (
    Conjunction,
    GroupSubject,
    HttpRule,
    NonResourceRule,
    Operator,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    UserSubject,
    ValueMatch,
)
from apf_middleware.config import Level, Queuing, Route, ServerSettings, load, load_text, read_source
from apf_middleware.config.admin import AdminSettings
from apf_middleware.config.authentication import TokenSettings
from apf_middleware.config.metrics import MetricsSettings
from apf_middleware.config.values import duration_ns, written_duration
from apf_middleware.fairqueuing.sharing.limits import LevelShares

SECOND = 10**9

SCHEMA = """\
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec:
  level: exempt
  precedence: 10
  distinguisher: {source: user}
  rules:
  - subjects:
    - user: alice
    httpRules:
    - methods: [GET]
      paths: [/a]
      hosts: [example.com]
      headers:
      - {name: X-A, values: [b]}
"""
LEVEL = """\
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: l}
spec:
  shares: 10
  minSeats: 2
  maxSeats: 5
  waitLimit: 5s
  queuing: {queues: 8, handSize: 2, queueLengthLimit: 4}
  gates:
  - db
"""
SERVER = """\
apiVersion: apf/v1
kind: Server
spec:
  seats: 50
  requestTimeout: 30s
  borrowing: periodic
  discipline: max-min-serial
  strictUpstream: true
  defaults: none
  resolver: web
  routes:
  - {path: "/tenants/{namespace}/orders/{name}", resource: orders, methods: [GET]}
  authentication:
  - {type: tokens, file: tokens.csv}
  metrics: {path: /numbers, prefix: shop}
  admin: {path: /debug}
"""


def schema(text: str) -> FlowSchema:
    [found] = [one for one in load_text(text).schemas if one.name == "s"]
    return found


def test_a_level() -> None:
    assert load_text(LEVEL).levels["l"] == Level(
        "l", LevelShares(10), Queuing(8, 2, 4, backfill=2), 2, 5, 5 * SECOND, ("db",)
    )


def test_a_level_of_few_words() -> None:
    text = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: l}\nspec: {}\n"

    assert load_text(text).levels["l"] == Level("l", LevelShares(30), Queuing(64, 8, 50, backfill=2))
    assert load_text(text.replace("{}", "{response: Reject}")).levels["l"].queuing is None
    assert load_text(text.replace("{}", "{type: Exempt}")).levels["l"].exempt


def test_the_server() -> None:
    assert load_text(SERVER).server == ServerSettings(
        seats=50,
        request_timeout_ns=30 * SECOND,
        borrowing="periodic",
        discipline="max-min-serial",
        strict_upstream=True,
        defaults="none",
        routes=(Route("/tenants/{namespace}/orders/{name}", "orders", methods=("GET",)),),
        authentication=(TokenSettings("tokens.csv"),),
        metrics=MetricsSettings(path="/numbers", prefix="shop"),
        admin=AdminSettings("/debug"),
    )


def test_rules_say_who_and_what() -> None:
    text = """\
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec:
  level: exempt
  rules:
  - subjects:
    - {user: alice}
    - {group: staff}
    - {serviceAccount: {namespace: ns, name: "*"}}
    resourceRules:
    - {verbs: [get], apiGroups: [""], resources: [orders], namespaces: ["*"]}
    nonResourceRules:
    - {verbs: ["*"], nonResourceURLs: [/x/*]}
  - httpRules:
    - methods: [GET, HEAD]
      paths: ["/tenants/{tenant}/*", /*]
      hosts: ["*.example.com"]
      headers: [{name: X-Plan, values: [free]}, {name: X-Debug, absent: true}]
      query: [{name: q, pattern: "[a-z]+"}]
  match:
  - and:
    - equals: {field: path, value: /y}
"""
    read = schema(text)
    subjects = (UserSubject("alice"), GroupSubject("staff"), ServiceAccountSubject("ns", "*"))
    http = HttpRule(
        ("GET", "HEAD"),
        ("/tenants/{tenant}/*", "/*"),
        ("*.example.com",),
        (ValueMatch("x-plan", ("free",)), ValueMatch("x-debug", absent=True)),
        (ValueMatch("q", pattern="[a-z]+"),),
    )

    assert read.precedence == 1000
    assert read.rules[:2] == (
        Rule(subjects, (ResourceRule(("get",), ("",), ("orders",), ("*",)),), (NonResourceRule(("*",), ("/x/*",)),)),
        Rule((UserSubject("*"),), http_rules=(http,)),
    )
    assert isinstance(read.rules[2], Conjunction)
    assert read.rules[2].tests[0].operator is Operator.EQUALS


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("source: user", Distinguisher(Source.USER)),
        ("source: namespace", Distinguisher(Source.NAMESPACE)),
        ("source: group, groups: ['tenant-*', ops]", Distinguisher(Source.GROUP, groups=("tenant-*", "ops"))),
        ("source: header, name: X-Tenant", Distinguisher(Source.HEADER, "x-tenant")),
        ("source: pathParameter, name: tenant", Distinguisher(Source.PATH_PARAMETER, "tenant")),
        ("source: query, name: Key", Distinguisher(Source.QUERY, "Key")),
        ("source: clientAddress", Distinguisher(Source.CLIENT_ADDRESS)),
        ("source: clientAddress, prefixV4: 32, prefixV6: 0", Distinguisher(Source.CLIENT_ADDRESS, "", (), 32, 0)),
        ("source: user, transform: '(.*)@.*'", Distinguisher(Source.USER, transform="(.*)@.*")),
        ("source: callable, callable: 'builtins:repr'", Distinguisher(Source.CALLABLE, function=repr)),
    ],
)
def test_distinguishers(given: str, expected: Distinguisher) -> None:
    assert schema(SCHEMA.replace("source: user", given)).distinguisher == expected


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("source: user", "source: header", 7, "spec.distinguisher.name", "header requires it"),
        ("source: user", "source: user, name: a", 7, "spec.distinguisher.name", "doesn't take it"),
        ("source: user", "source: user, prefixV4: 8", 7, "spec.distinguisher.prefixV4", "doesn't take it"),
        ("source: user", "source: group, groups: []", 7, "spec.distinguisher.groups", "group requires it"),
        ("source: user", "source: group, groups: ['a*b']", 7, "spec.distinguisher.groups[0]", "only be last"),
        ("source: user", "source: clientAddress, prefixV4: 33", 7, "spec.distinguisher.prefixV4", "at most 32"),
        ("source: user", "source: tenant", 7, "spec.distinguisher.source", "must be 'user'"),
        ("source: user", "source: user, transform: '(a)(b)'", 7, "spec.distinguisher.transform", "one capturing group"),
        ("source: user", "source: user, transform: '[[a]'", 7, "spec.distinguisher.transform", "nested set"),
        (
            "source: user",
            "source: callable, callable: no.such:f",
            7,
            "spec.distinguisher.callable",
            "can't be imported",
        ),
        ("source: user", "source: callable, callable: 'os:sep'", 7, "spec.distinguisher.callable", "isn't callable"),
        ("precedence: 10", "precedence: 1", 6, "spec.precedence", "reserved"),
        ("precedence: 10", "precedence: 1.5", 6, "spec.precedence", "whole number"),
        ("precedence", "matchingPrecedence", 6, "spec.matchingPrecedence", "no such key"),
        ("[GET]", "[get]", 12, "spec.rules[0].httpRules[0].methods[0]", "upper case"),
        ("[GET]", "['*']", 12, "spec.rules[0].httpRules[0].methods[0]", "HTTP method"),
        ("[/a]", "[a]", 13, "spec.rules[0].httpRules[0].paths[0]", "begin with /"),
        ("[/a]", "[/a, '/{a}/{a}']", 13, "spec.rules[0].httpRules[0].paths[1]", "name of its own"),
        ("[/a]", "['/a{b}']", 13, "spec.rules[0].httpRules[0].paths[0]", "whole segment"),
        ("[/a]", "[/a//b]", 13, "spec.rules[0].httpRules[0].paths[0]", "'//'"),
        ("[example.com]", "['a.*']", 14, "spec.rules[0].httpRules[0].hosts[0]", "host name"),
        ("name: X-A", "name: X A", 16, "spec.rules[0].httpRules[0].headers[0].name", "header's name"),
        ("values: [b]", "values: [b], absent: true", 16, "spec.rules[0].httpRules[0].headers[0].absent", "can't have"),
        ("values: [b]", "pattern: '('", 16, "spec.rules[0].httpRules[0].headers[0].pattern", "must be a regex"),
        ("    - user: alice", "    - {}", 10, "spec.rules[0].subjects[0]", "exactly one of"),
        ("    - user: alice", "    - kind: User", 10, "spec.rules[0].subjects[0].kind", "no such key"),
        ("    - user: alice", "      []", 9, "spec.rules[0].subjects", "at least one"),
        (SCHEMA[SCHEMA.index("    httpRules") :], "", 9, "spec.rules[0].httpRules", "must have resourceRules"),
        (SCHEMA[SCHEMA.index("  rules") :], "", 4, "spec.rules", "must have rules or match"),
        ("name: s", "name: catch-all", 4, "spec", "can't be changed"),
    ],
)
def test_what_is_wrong_with_a_schema_is_told(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(SCHEMA.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("waitLimit: 5s", "waitLimit: 5", 8, "spec.waitLimit", "must be text"),
        ("waitLimit: 5s", "waitLimit: 5 s", 8, "spec.waitLimit", "must be a duration"),
        ("waitLimit: 5s", "waitLimit: 99999999h", 8, "spec.waitLimit", "at most a year"),
        ("minSeats: 2", "minSeats: 6", 6, "spec.minSeats", "not exceed maxSeats"),
        ("shares: 10", "type: Exempt", 8, "spec.waitLimit", "exempt level must not"),
        ("shares: 10", "response: Reject", 9, "spec.queuing", "absent where nobody waits"),
        ("- db", "- {type: capacity}", 11, "spec.gates[0]", "must be text"),
        ("- db", "- ''", 11, "spec.gates[0]", "must not be empty"),
        ("shares: 10", "nominalConcurrencyShares: 10", 5, "spec.nominalConcurrencyShares", "no such key"),
        ("handSize: 2", "handSize: 9", 9, "spec.queuing.handSize", "not exceed the 8"),
        ("name: l", "name: exempt", 4, "spec", "must be exempt"),
    ],
)
def test_what_is_wrong_with_a_level_is_told(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(LEVEL.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("seats: 50", "seats: 0", 4, "spec.seats", "at least 1"),
        ("requestTimeout: 30s", "requestTimeout: 0s", 5, "spec.requestTimeout", "more than nothing"),
        ("strictUpstream: true", "strictUpstream: yes", 8, "spec.strictUpstream", "true or false"),
        ("defaults: none", "defaults: all", 9, "spec.defaults", "'web', 'kubernetes' or 'none'"),
        ("resource: orders, ", "", 12, "spec.routes[0].resource", "required"),
        (
            "  routes:\n",
            "  routes:\n  - {path: /a/*, resource: a}\n  - {path: /a/*, resource: b}\n",
            11,
            "spec.routes",
            "same paths",
        ),
        ("/orders/", "/or{ders/", 12, "spec.routes[0].path", "whole segment"),
        ("type: tokens, ", "", 14, "spec.authentication[0].type", "must name its type"),
        ("metrics: {path: /numbers, prefix: shop}", "metrics: on", 15, "spec.metrics", "must be a mapping"),
    ],
)
def test_what_is_wrong_with_the_server_is_told(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(SERVER.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


def test_names_of_other_formats_are_explained() -> None:
    errors = read_source(SCHEMA.replace("level:", "requestPriority:")).errors

    assert [one.hint for one in errors if one.field == "spec.requestPriority"] == ["Here it is called level"]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("15s", 15 * SECOND),
        ("1m30s", 90 * SECOND),
        ("250ms", SECOND // 4),
        ("1.5h", 5400 * SECOND),
        ("0s", 0),
        ("7ns", 7),
    ],
)
def test_durations(text: str, nanoseconds: int) -> None:
    assert duration_ns(text) == nanoseconds
    assert duration_ns(written_duration(nanoseconds)) == nanoseconds


QUEUING = """\
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: l}
spec:
  queuing: {%s}
"""


@pytest.mark.parametrize(
    ("text", "queuing"),
    [
        ("queues: exact", Queuing(64, 8, 50, exact=1024, backfill=2)),
        ("queues: exact, maxQueues: 10, backfill: 0", Queuing(64, 8, 50, exact=10, backfill=0)),
        ("queues: exact, sharedQueues: 4", Queuing(4, 4, 50, exact=1024, backfill=2)),
        ("queues: exact, sharedQueues: 4, handSize: 2", Queuing(4, 2, 50, exact=1024, backfill=2)),
        ("queues: 0, backfill: 7", Queuing(64, 8, 50, backfill=7)),
    ],
)
def test_the_queues_of_a_level(text: str, queuing: Queuing) -> None:
    assert load_text(QUEUING % text).levels["l"].queuing == queuing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("maxQueues: 7", "queuing.maxQueues is 7, but it must be absent unless queues are exact"),
        ("sharedQueues: 7", "queuing.sharedQueues is 7, but it must be absent unless queues are exact"),
        ("queues: exact, maxQueues: 0", "queuing.maxQueues is 0, but it must be from 1 to 5000000"),
        ("queues: exact, sharedQueues: 0", "queuing.sharedQueues is 0, but it must be from 1 to"),
        ("queues: exact, sharedQueues: 4, handSize: 5", "queuing.handSize is 5, but it must not exceed the 4 queues"),
        ("queues: many", "queuing.queues is 'many', but it must be"),
        ("backfill: 101", "queuing.backfill is 101, but it must be from 0 to 100"),
        ("backfill: -1", "queuing.backfill is -1, but it must be from 0 to 100"),
    ],
)
def test_what_is_wrong_with_queues(text: str, message: str) -> None:
    problems = [str(problem) for problem in read_source(QUEUING % text, "a.yaml").problems]

    assert any(message in problem for problem in problems), problems


def test_a_flow_with_a_queue_of_its_own_may_have_wide_requests_as_if_its_hand_were_one() -> None:
    assert Queuing(64, 8, exact=10).hand == 1
    assert Queuing(64, 8).hand == 8


def test_kubernetes_manifests_keep_sharding_and_let_nobody_pass() -> None:
    level = load(defaults="kubernetes").levels["workload-low"]

    assert level.queuing == Queuing(128, 6, 50, exact=0, backfill=0)
