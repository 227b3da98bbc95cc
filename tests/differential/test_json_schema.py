"""The JSON Schema beside the reader: an editor refuses no document that a server reads, and the other way round.

The schema has no rules between fields, and only the simple ones of single values. For types, null, unknown and missing
keys, and bounds of numbers, the two must agree, whatever the document is.
"""

import copy
import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import yaml

from apf_middleware.config import read_source
from apf_middleware.config.jsonschema import json_schema
from tests.support.examples import seeds
from tests.support.json_schema import resolved, wrong

Node = dict[str, Any]
Place = tuple[str | int, ...]

SCHEMA = json_schema()

DOCUMENTS: list[Node] = list(
    yaml.safe_load_all("""\
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: a, labels: {team: x}, annotations: {note: x}}
spec:
  shares: 20
  lendablePercent: 10
  borrowingLimitPercent: 50
  queuing: {queues: 64, handSize: 6, queueLengthLimit: 50, backfill: 1}
  waitLimit: 5s
  deadline: 15s
  gates: [db]
  streams: {maxOpen: 9, maxOpenPerFlow: 2, releaseAtStart: true, releaseWhenBlocked: 1s}
  headroom: 20%
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: a}
spec:
  level: exempt
  precedence: 10
  distinguisher: {source: header, name: x-tenant, transform: (a).*}
  queue: {source: clientAddress, prefixV4: 24, prefixV6: 64}
  weight: 2
  weights: {x: 3}
  groupWeights: {x: 2.5}
  weightFunction: builtins:hash
  criticality: critical
  deadline: 5s
  estimate: {source: header, name: x-cost, groups: [g], users: [u], networks: [10.0.0.0/8], mostSeats: 3, perSeat: 2}
  gates: [db]
  rules:
  - subjects: [{user: x}, {group: x}, {serviceAccount: {namespace: ns, name: x}}]
    httpRules:
    - methods: [GET]
      paths: [/a]
      hosts: [x.example]
      headers: [{name: x-a, values: [b]}, {name: x-b, absent: true}]
      query: [{name: q, pattern: "[0-9]+"}]
      criticality: [critical]
    resourceRules: [{verbs: [get], apiGroups: [""], resources: [pods], namespaces: [x], clusterScope: false}]
    nonResourceRules: [{verbs: [get], nonResourceURLs: [/a]}]
  match: [{and: [{equals: {field: user, value: a}}]}]
---
apiVersion: apf/v1
kind: Server
metadata: {name: server, labels: {team: x}, annotations: {note: x}}
spec:
  seats: {adaptive: {min: 5, max: 400, start: 20}}
  mode: "on"
  defaults: web
  defaultsVersion: 1
  backstops: kubernetes
  borrowing: immediate
  discipline: max-min-serial
  strictUpstream: false
  resolver: web
  requestTimeout: 1m
  maxWaitingMemory: 64MiB
  trustedProxies: {networks: [10.0.0.0/8], unix: true, header: forwarded}
  authentication:
  - {type: user, scopesAsGroups: true}
  - {type: proxy, networks: [10.0.0.0/8], unix: true, commonNames: [x], userHeaders: [x-u], groupHeaders: [x-g]}
  - {type: certificate}
  - {type: function, callable: "builtins:repr", headers: [x-a]}
  admin: {app: shop, console: true, groups: [a], operators: [b], path: /ops, socket: /run/shop}
  bodies: {anyMethod: true, buffer: 9B, holdSeats: true, maxBuffered: 9B, maxReceiving: 9, minRate: 1B, patience: 5s}
  criticality: {groups: [x], headers: {x-a: name}, usual: critical}
  deadlines: {extendTo: 5s, groups: [x], headers: {x-a: grpc}, margin: 5ms, query: q, prediction: shadow, started: [x]}
  estimation:
    cap: true
    default: {source: constant, seats: 2, finalSeats: 1, linger: 1s}
    learning: {enough: 9, mostRoutes: 9, span: 9}
    lists: {bySize: true, bytesPerSeat: 9, consistentReads: true, largestObject: 9, mostSeats: 9, objectsPerSeat: 9}
    writes: {enabled: true, event: 5ms, mostSeats: 9, watchesPerSeat: 9}
  eventLoop: {lagTarget: 50ms}
  gates:
  - {name: db, capacity: 5, key: {source: user}, maxParked: 9, onError: reject, release: headers, status: 503}
  - {name: quota, tokens: {rate: 5, burst: 9}, cost: seats, per: flow}
  loadReports: {forEverybody: true, header: text, path: /load}
  metrics: {enabled: true, exposedTo: [10.0.0.0/8], legacyNames: true, path: /metrics, prefix: x}
  queues: {default: users, groups: [x], header: x-queue, trustedProxies: true, unknown: notFound}
  readiness: {after: 5s, levels: [users], path: /ready, recover: 5s}
  responses: {dialect: apf, headers: all, names: hidden, retryAfter: {least: 1s}, serverTiming: true, status: 503}
  routes: [{path: /x, methods: [GET], resource: x, subresource: x, gates: [db], estimate: {source: learned}}]
  streams: {releaseAtStart: true, releaseWhenBlocked: 1s}
  telemetry: {flows: true, tracing: true}
---
apiVersion: apf/v1
kind: Server
spec:
  seats: 5
  fleet:
    name: shop
    store: redis://localhost
    interval: 1s
    lease: 9s
    fallback: {members: 2, share: 0.5}
    redis: {prefix: x}
  authentication:
  - {type: tokens, file: /nowhere, header: x-key, scheme: X}
  - type: jwt
    algorithms: [RS256]
    issuer: https://x.example
    audiences: [x]
    jwksUrl: https://x.example/jwks
    jwksInterval: 1h
    leeway: 5s
    requiredClaims: {x: y}
    plainHttp: false
    header: x-jwt
    scheme: X
    systemNames: false
    usernameClaim: x
    usernamePrefix: x
    groupsClaim: x
    groupsPrefix: x
    requireExpiry: false
""")
)

VALUES: list[Any] = [None, "", "x", 0, -1, 1, 1.5, 2**40, -(2**40), 2.0**70, True, False]
VALUES += [[], [None], ["x"], ["x", "x"], [1], [{}], [[]], {}, {"x": None}, {"x": "y"}, {"x": 1}, "5s", "5 s", "0x10"]

IN_THE_SCHEMA = re.compile(
    r"it must be (text|a whole number|a number|true or false|a list|a mapping|(at least|at most|more than) -?[0-9.e+]+)"
    r"|it is required|there is no such key here"
)
"""Rules of the reader for what the schema describes, too."""


def errors(document: Node) -> list[str]:
    return [problem.rule for problem in read_source(json.dumps(document)).errors]


def compare(document: Node) -> None:
    rules = errors(document)
    refused = list(wrong(document, SCHEMA, SCHEMA))

    assert rules or not refused, f"the reader accepts what the schema refuses: {refused}"
    if not refused:
        known = [rule for rule in rules if IN_THE_SCHEMA.fullmatch(rule)]
        assert known == [], "the schema accepts what the reader refuses"


def mappings(value: Any, schema: Node, place: Place = ()) -> Iterator[tuple[Place, Node]]:  # noqa: ANN401 - of any type
    """Yield the places of the mappings in a document, and the models that describe them."""
    if "$ref" in schema:
        schema = resolved(schema["$ref"], SCHEMA)
    choices: list[Node] = schema.get("anyOf") or schema.get("oneOf") or []
    for one in choices:
        if not list(wrong(value, one, SCHEMA)):
            yield from mappings(value, one, place)
    if isinstance(value, dict) and "properties" in schema:
        yield place, schema
        for key, inner in value.items():
            if key in schema["properties"]:
                yield from mappings(inner, schema["properties"][key], (*place, key))
    if isinstance(value, list) and "items" in schema:
        for number, inner in enumerate(value):
            yield from mappings(inner, schema["items"], (*place, number))


def at(document: Any, place: Place) -> Node:  # noqa: ANN401 - of any type
    for step in place:
        document = document[step]
    found: Node = document
    return found


PLACES = [(number, place, model) for number, one in enumerate(DOCUMENTS) for place, model in mappings(one, SCHEMA)]


def test_the_documents_are_valid_and_have_almost_every_object() -> None:
    assert [errors(one) for one in DOCUMENTS] == [[]] * len(DOCUMENTS)
    assert [list(wrong(one, SCHEMA, SCHEMA)) for one in DOCUMENTS] == [[]] * len(DOCUMENTS)
    seen = {model.get("title") for _, _, model in PLACES}
    assert {model["title"] for model in SCHEMA["$defs"].values()} - seen <= {"ShadowSettings"}


def test_null_means_for_both_that_a_key_is_missing() -> None:
    for number, place, model in PLACES:
        for key in model["properties"]:
            without, document = copy.deepcopy(DOCUMENTS[number]), copy.deepcopy(DOCUMENTS[number])
            at(without, place).pop(key, None)
            at(document, place)[key] = None

            is_refused = bool(list(wrong(document, SCHEMA, SCHEMA)))
            assert is_refused == bool(list(wrong(without, SCHEMA, SCHEMA))), (place, key)
            assert not is_refused or errors(document), (place, key)


@pytest.mark.parametrize("seed", seeds(10))
def test_both_accept_and_refuse_the_same_documents(seed: int) -> None:
    """Keys are removed at random, and one value is changed."""
    dice = Random(seed)
    for _ in range(40):
        number, place, model = dice.choice(PLACES)
        document = copy.deepcopy(DOCUMENTS[number])
        changed = at(document, place)
        key = "unknown" if dice.random() < 0.05 else dice.choice(list(model["properties"]))
        changed[key] = dice.choice(VALUES)
        for other in dice.sample(list(changed), dice.choice([0, 0, len(changed) // 3])):
            if other != key:
                del changed[other]

        compare(document)
