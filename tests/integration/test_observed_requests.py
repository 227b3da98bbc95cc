"""The requests that the KEP's authors observed: which schema takes them by their example, and by Kubernetes' defaults."""

# ruff: noqa: E501 (a table is read by its rows)

from pathlib import Path

import pytest

from apf_middleware.classification import Identity, RequestDigest
from apf_middleware.config import Configuration, load
from apf_middleware.config.build import derive_classifier, derive_resolver

EXAMPLE = Path(__file__).parents[1] / "unit" / "config" / "data" / "kep-example.yaml"


def service_account(namespace: str, name: str) -> Identity:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Identity(f"system:serviceaccount:{namespace}:{name}", groups)


LOOPBACK = Identity("system:apiserver", ("system:masters",))
CONTROLLER_MANAGER = Identity("system:kube-controller-manager", ("system:authenticated",))
AGGREGATED = Identity(
    "system:serviceaccount:example-com:network-apiserver",
    ("system:serviceaccounts", "system:serviceaccounts:example-com", "system:authenticated"),
)
ADMIN = Identity("system:admin", ("system:masters", "system:authenticated"))
NODE = Identity("system:node:127.0.0.1", ("system:nodes", "system:authenticated"))
DEPLOYMENTS = Identity(
    "system:serviceaccount:kube-system:deployment-controller",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
ETCD_OPERATOR = Identity(
    "system:serviceaccount:example-com:default",
    ("system:serviceaccounts", "system:serviceaccounts:example-com", "system:authenticated"),
)
SCHEDULER = Identity("system:kube-scheduler", ("system:authenticated",))
POD_COLLECTOR = Identity(
    "system:serviceaccount:kube-system:pod-garbage-collector",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
COLLECTOR = Identity(
    "system:serviceaccount:kube-system:generic-garbage-collector",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
HOSTED = Identity(
    "system:serviceaccount:example-com:kos-controller-manager",
    ("system:serviceaccounts", "system:serviceaccounts:example-com", "system:authenticated"),
)
UNSECURED = Identity("system:unsecured", ("system:masters", "system:authenticated"))

# who, method, path -> the schema that takes it in the KEP's example, and by Kubernetes' defaults
OBSERVED = [
    (
        LOOPBACK,
        "GET",
        "/apis/admissionregistration.k8s.io/v1beta1/mutatingwebhookconfigurations",
        "system-top",
        "exempt",
    ),
    (LOOPBACK, "GET watch", "/api/v1/services", "system-top", "exempt"),
    (LOOPBACK, "GET", "/api/v1/namespaces/default/services/kubernetes", "system-top", "exempt"),
    (
        CONTROLLER_MANAGER,
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "workload-high",
        "kube-controller-manager",
    ),
    (AGGREGATED, "POST", "/apis/authorization.k8s.io/v1beta1/subjectaccessreviews", "workload-low", "service-accounts"),
    (ADMIN, "GET", "/openapi/v2", "system-top", "exempt"),
    (ADMIN, "GET", "/apis/network.example.com/v1alpha1/namespaces/default/networkattachments", "system-top", "exempt"),
    (NODE, "PATCH", "/api/v1/nodes/127.0.0.1/status", "system-high", "system-node-high"),
    (
        NODE,
        "PUT",
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/127.0.0.1",
        "workload-high",
        "system-node-high",
    ),
    (CONTROLLER_MANAGER, "GET", "/apis/coordination.k8s.io/v1/leases", "workload-high", "kube-controller-manager"),
    (
        CONTROLLER_MANAGER,
        "GET watch",
        "/apis/coordination.k8s.io/v1beta1/leases",
        "workload-high",
        "kube-controller-manager",
    ),
    (
        DEPLOYMENTS,
        "PUT",
        "/apis/apps/v1/namespaces/kube-system/deployments/kube-dns/status",
        "workload-low",
        "kube-system-service-accounts",
    ),
    (ETCD_OPERATOR, "GET", "/api/v1/namespaces/example-com/pods", "workload-low", "service-accounts"),
    (
        ETCD_OPERATOR,
        "PUT",
        "/apis/etcd.database.coreos.com/v1beta2/namespaces/example-com/etcdclusters/the-etcd-cluster",
        "workload-low",
        "service-accounts",
    ),
    (
        SCHEDULER,
        "POST",
        "/api/v1/namespaces/example-com/pods/the-etcd-cluster-mxcxvgbcfg/binding",
        "workload-high",
        "kube-scheduler",
    ),
    (POD_COLLECTOR, "GET", "/api/v1/nodes", "workload-low", "kube-system-service-accounts"),
    (COLLECTOR, "GET", "/api", "workload-low", "kube-system-service-accounts"),
    (COLLECTOR, "GET", "/apis/coordination.k8s.io/v1beta1", "workload-low", "kube-system-service-accounts"),
    (SCHEDULER, "GET", "/apis/storage.k8s.io/v1/storageclasses", "workload-high", "kube-scheduler"),
    (SCHEDULER, "GET watch", "/api/v1/services", "workload-high", "kube-scheduler"),
    (
        SCHEDULER,
        "PUT",
        "/api/v1/namespaces/kube-system/pods/kube-dns-5f7bc9fd5c-2bsz8/status",
        "workload-high",
        "kube-scheduler",
    ),
    (SCHEDULER, "POST", "/apis/events.k8s.io/v1beta1/namespaces/example-com/events", "workload-high", "kube-scheduler"),
    (NODE, "PATCH", "/api/v1/namespaces/default/pods/bb1-66bdc74b9c-bgm47/status", "workload-high", "system-nodes"),
    (HOSTED, "GET", "/apis/network.example.com/v1alpha1/subnets", "workload-low", "service-accounts"),
    (HOSTED, "GET watch", "/apis/network.example.com/v1alpha1/subnets", "workload-low", "service-accounts"),
    (
        HOSTED,
        "PUT",
        "/apis/network.example.com/v1alpha1/namespaces/default/subnets/sn-1",
        "workload-low",
        "service-accounts",
    ),
    (ADMIN, "GET", "/api/v1/namespaces/default/pods/bb1-66bdc74b9c-bgm47/log", "system-top", "exempt"),
    (ADMIN, "POST", "/api/v1/namespaces/default/pods/bb1-66bdc74b9c-bgm47/exec", "system-top", "exempt"),
    (UNSECURED, "GET", "/healthz/zzz", "system-top", "exempt"),
    (UNSECURED, "GET", "/api/v1/namespaces/fooobar", "system-top", "exempt"),
]


def schema_of(configuration: Configuration, identity: Identity, method: str, path: str) -> str:
    method, _, watch = method.partition(" ")
    query = {"watch": "true"} if watch else {}
    resolution = derive_resolver(configuration)(method, path, query)
    digest = RequestDigest(identity, resolution.verb, path, method, resolution.resource, query=query)
    return derive_classifier(configuration).classify(digest).schema


@pytest.fixture(scope="module")
def example() -> Configuration:
    return load(EXAMPLE)


@pytest.fixture(scope="module")
def kubernetes() -> Configuration:
    return load(defaults="kubernetes")


@pytest.mark.parametrize("row", OBSERVED, ids=lambda row: f"{row[1]} {row[2]}")
def test_an_observed_request_matches_its_schema(
    example: Configuration, kubernetes: Configuration, row: tuple[Identity, str, str, str, str]
) -> None:
    identity, method, path, by_example, by_default = row
    assert schema_of(example, identity, method, path) == by_example
    assert schema_of(kubernetes, identity, method, path) == by_default


def test_every_observed_request_is_tested() -> None:
    assert len(OBSERVED) == 30
