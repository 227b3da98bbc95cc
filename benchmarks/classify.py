"""The cost of classification: ``python -m benchmarks.classify [--json]``.

Microseconds per request from a finished digest to schema, level and flow. The median of several repetitions.

seen       the same identity, verb and path (or resource) was seen lately
new-path   the identity was seen, and the path never: decided anew, and remembered

With 11 schemas these are Kubernetes' own; with 500 there are 489 more, nine of ten of which name other users, groups
or service accounts. The requests come from six identities, half of them about resources. ``unit_us`` is the time to
push 1,000 entries onto a heap and to pop them again, in the same run: divide by it to compare machines.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from apf_middleware.classification import (
    AnySubject,
    Classifier,
    Distinguisher,
    FlowSchema,
    GroupSubject,
    Identity,
    NonResourceRule,
    RequestDigest,
    Resource,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    Source,
    UserSubject,
)
from apf_middleware.fairqueuing import flow_hash
from benchmarks.measure import median_us, print_json, print_table, unit_us

Row = dict[str, Any]

SIZES = (11, 500)
SEEN = 256  # different requests that come again and again
STRANGERS = 0.9  # of the schemas beyond Kubernetes' own

_ALL = ("*",)
_EVERYTHING = ResourceRule(_ALL, _ALL, _ALL, _ALL, cluster_scope=True)
_EVERY_PATH = NonResourceRule(_ALL, _ALL)
_BY_USER, _BY_NAMESPACE = Distinguisher(Source.USER), Distinguisher(Source.NAMESPACE)
_LEASES = "coordination.k8s.io"
_ANYBODY = (GroupSubject("system:unauthenticated"), GroupSubject("system:authenticated"))
_NODES = GroupSubject("system:nodes")
_CONTROLLER, _SCHEDULER = UserSubject("system:kube-controller-manager"), UserSubject("system:kube-scheduler")
_SYSTEM_ACCOUNTS = ServiceAccountSubject("kube-system", "*")


def everything(*subjects: AnySubject) -> tuple[Rule, ...]:
    return (Rule(subjects, (_EVERYTHING,), (_EVERY_PATH,)),)


def kubernetes_schemas() -> list[FlowSchema]:
    """Return Kubernetes' eleven objects, the last of which is its catch-all."""
    probes = Rule(_ANYBODY, non_resource_rules=(NonResourceRule(("get",), ("/healthz", "/readyz", "/livez")),))
    elections = ResourceRule(("get", "create", "update"), (_LEASES,), ("leases",), _ALL)
    heartbeats = (
        ResourceRule(_ALL, ("",), ("nodes", "nodes/status"), _ALL, cluster_scope=True),
        ResourceRule(_ALL, (_LEASES,), ("leases",), _ALL),
    )
    elected = Rule((_CONTROLLER, _SCHEDULER, _SYSTEM_ACCOUNTS), (elections,))
    accounts = everything(GroupSubject("system:serviceaccounts"))
    return [
        FlowSchema("exempt", "exempt", 1, everything(GroupSubject("system:masters"))),
        FlowSchema("probes", "exempt", 2, (probes,)),
        FlowSchema("system-leader-election", "leader-election", 100, (elected,), _BY_USER),
        FlowSchema("system-node-high", "node-high", 400, (Rule((_NODES,), heartbeats),), _BY_USER),
        FlowSchema("system-nodes", "system", 500, everything(_NODES), _BY_USER),
        FlowSchema("kube-controller-manager", "workload-high", 800, everything(_CONTROLLER), _BY_NAMESPACE),
        FlowSchema("kube-scheduler", "workload-high", 800, everything(_SCHEDULER), _BY_NAMESPACE),
        FlowSchema("kube-system-service-accounts", "workload-high", 900, everything(_SYSTEM_ACCOUNTS), _BY_NAMESPACE),
        FlowSchema("service-accounts", "workload-low", 9000, accounts, _BY_USER),
        FlowSchema("global-default", "global-default", 9900, everything(*_ANYBODY), _BY_USER),
        FlowSchema("catch-all", "catch-all", 10000, everything(*_ANYBODY), _BY_USER),
    ]


def more_schemas(number: int) -> Iterator[FlowSchema]:
    """Schemas that are tried before Kubernetes' own defaults."""
    for n in range(number):
        strangers: list[AnySubject] = [
            UserSubject(f"user-{n}"),
            GroupSubject(f"team-{n}"),
            ServiceAccountSubject(f"space-{n}", "*"),
        ]
        subject = strangers[n % 3] if n < number * STRANGERS else _ANYBODY[1]
        resources = ResourceRule(("get", "list"), ("apps",), (f"things{n}",), _ALL)
        paths = NonResourceRule(("get",), (f"/things/{n}/*",))
        yield FlowSchema(f"more-{n}", "workload-low", 1000 + n, (Rule((subject,), (resources,), (paths,)),), _BY_USER)


def identities() -> list[Identity]:
    authenticated = "system:authenticated"
    account = "system:serviceaccount:"
    return [
        Identity("alice", ("developers", authenticated)),
        Identity("system:anonymous", ("system:unauthenticated",)),
        Identity("system:node:n1", ("system:nodes", authenticated)),
        Identity("system:kube-scheduler", (authenticated,)),
        Identity(f"{account}kube-system:job", ("system:serviceaccounts", f"{account}kube-system", authenticated)),
        Identity(f"{account}shop:web", ("system:serviceaccounts", f"{account}shop", authenticated)),
    ]


def requests(number: int, first: int = 0) -> list[RequestDigest]:
    """All different, and all with strings of their own, as from the network."""
    asking = itertools.cycle(identities())
    made = []
    for n in range(first, first + number):
        identity = next(asking)
        if n // 6 % 2:
            resource = Resource("pods", "", "v1", "", f"space-{n}", f"pod-{n}")
            made.append(RequestDigest(identity, "get", f"/api/v1/namespaces/space-{n}/pods/pod-{n}", resource=resource))
        else:
            made.append(RequestDigest(identity, "get", f"/things/to/see/{n}"))
    return made


def classifier_of(size: int) -> Classifier:
    schemas = kubernetes_schemas()
    *_, catch_all = schemas
    schemas += more_schemas(size - len(schemas))
    return Classifier(schemas, hash_flow=flow_hash, fallback=catch_all)


def seen(size: int, number: int) -> Callable[[], int]:
    # Equal, but not the same: another request has its own digest and path.
    known = [replace(digest, path="".join(list(digest.path))) for digest in requests(SEEN)]
    asked = [known[n % SEEN] for n in range(number)]
    classify = classifier_of(size).classify
    for digest in requests(SEEN):
        classify(digest)

    def run() -> int:
        for digest in asked:
            classify(digest)
        return number

    return run


def new_path(size: int, number: int) -> Callable[[], int]:
    classify = classifier_of(size).classify
    for digest in requests(SEEN):
        classify(digest)
    batches = (requests(number, SEEN + batch * number) for batch in itertools.count())
    prepared = list(itertools.islice(batches, REPETITIONS + 1))

    def run() -> int:
        for digest in prepared.pop():
            classify(digest)
        return number

    return run


REPETITIONS = 7
CASES: dict[str, Callable[[int, int], Callable[[], int]]] = {"seen": seen, "new-path": new_path}


def measure(number: int) -> Iterator[Row]:
    unit = round(unit_us(), 2)
    for size in SIZES:
        for case, prepare in CASES.items():
            cost = median_us(prepare(size, number), REPETITIONS)
            yield {"case": case, "schemas": size, "us_per_request": round(cost, 3), "unit_us": unit}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classify", description="The cost of classification.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--requests", type=int, default=5_000, help="requests in one repetition")
    options = parser.parse_args()
    if options.requests < 1:
        parser.error("--requests must be at least 1")
    rows = list(measure(options.requests))
    if options.json:
        print_json(rows)
        return
    header = ("case", "schemas", "us_per_request", "unit_us")
    print_table(header, ([line[column] for column in header] for line in rows))


if __name__ == "__main__":
    main()
