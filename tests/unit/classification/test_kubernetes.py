"""Kubernetes' paths, among them all requests that the KEP's authors observed."""

import pytest

from apf_middleware.classification import Resolution, Resource, resolve_kubernetes

CORE, COORDINATION = "", "coordination.k8s.io"
ADMISSION, NETWORK = "admissionregistration.k8s.io", "network.example.com"
POD = "/api/v1/namespaces/default/pods/bb1-66bdc74b9c-bgm47"

# method, path and query -> verb, API group, version, resource, subresource, namespace, name
OBSERVED = [
    (
        ("GET", f"/apis/{ADMISSION}/v1beta1/mutatingwebhookconfigurations", ""),
        ("list", ADMISSION, "v1beta1", "mutatingwebhookconfigurations", "", "", ""),
    ),
    (("GET", "/api/v1/services", "true"), ("watch", CORE, "v1", "services", "", "", "")),
    (
        ("GET", "/api/v1/namespaces/default/services/kubernetes", ""),
        ("get", CORE, "v1", "services", "", "default", "kubernetes"),
    ),
    (
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", ""),
        ("create", "authentication.k8s.io", "v1", "tokenreviews", "", "", ""),
    ),
    (
        ("POST", "/apis/authorization.k8s.io/v1beta1/subjectaccessreviews", ""),
        ("create", "authorization.k8s.io", "v1beta1", "subjectaccessreviews", "", "", ""),
    ),
    (
        ("GET", f"/apis/{NETWORK}/v1alpha1/namespaces/default/networkattachments", ""),
        ("list", NETWORK, "v1alpha1", "networkattachments", "", "default", ""),
    ),
    (("PATCH", "/api/v1/nodes/127.0.0.1/status", ""), ("patch", CORE, "v1", "nodes", "status", "", "127.0.0.1")),
    (
        ("PUT", f"/apis/{COORDINATION}/v1/namespaces/kube-node-lease/leases/127.0.0.1", ""),
        ("update", COORDINATION, "v1", "leases", "", "kube-node-lease", "127.0.0.1"),
    ),
    (("GET", f"/apis/{COORDINATION}/v1/leases", ""), ("list", COORDINATION, "v1", "leases", "", "", "")),
    (("GET", f"/apis/{COORDINATION}/v1beta1/leases", "true"), ("watch", COORDINATION, "v1beta1", "leases", "", "", "")),
    (
        ("PUT", "/apis/apps/v1/namespaces/kube-system/deployments/kube-dns/status", ""),
        ("update", "apps", "v1", "deployments", "status", "kube-system", "kube-dns"),
    ),
    (("GET", "/api/v1/namespaces/example-com/pods", ""), ("list", CORE, "v1", "pods", "", "example-com", "")),
    (
        ("PUT", "/apis/etcd.database.coreos.com/v1beta2/namespaces/example-com/etcdclusters/the-etcd-cluster", ""),
        ("update", "etcd.database.coreos.com", "v1beta2", "etcdclusters", "", "example-com", "the-etcd-cluster"),
    ),
    (
        ("POST", "/api/v1/namespaces/example-com/pods/the-etcd-cluster-mxcxvgbcfg/binding", ""),
        ("create", CORE, "v1", "pods", "binding", "example-com", "the-etcd-cluster-mxcxvgbcfg"),
    ),
    (("GET", "/api/v1/nodes", ""), ("list", CORE, "v1", "nodes", "", "", "")),
    (
        ("GET", "/apis/storage.k8s.io/v1/storageclasses", ""),
        ("list", "storage.k8s.io", "v1", "storageclasses", "", "", ""),
    ),
    (
        ("PUT", "/api/v1/namespaces/kube-system/pods/kube-dns-5f7bc9fd5c-2bsz8/status", ""),
        ("update", CORE, "v1", "pods", "status", "kube-system", "kube-dns-5f7bc9fd5c-2bsz8"),
    ),
    (
        ("POST", "/apis/events.k8s.io/v1beta1/namespaces/example-com/events", ""),
        ("create", "events.k8s.io", "v1beta1", "events", "", "example-com", ""),
    ),
    (("PATCH", f"{POD}/status", ""), ("patch", CORE, "v1", "pods", "status", "default", "bb1-66bdc74b9c-bgm47")),
    (("GET", f"/apis/{NETWORK}/v1alpha1/subnets", ""), ("list", NETWORK, "v1alpha1", "subnets", "", "", "")),
    (("GET", f"/apis/{NETWORK}/v1alpha1/subnets", "true"), ("watch", NETWORK, "v1alpha1", "subnets", "", "", "")),
    (
        ("PUT", f"/apis/{NETWORK}/v1alpha1/namespaces/default/subnets/sn-1", ""),
        ("update", NETWORK, "v1alpha1", "subnets", "", "default", "sn-1"),
    ),
    (("GET", f"{POD}/log", ""), ("get", CORE, "v1", "pods", "log", "default", "bb1-66bdc74b9c-bgm47")),
    (("POST", f"{POD}/exec", ""), ("create", CORE, "v1", "pods", "exec", "default", "bb1-66bdc74b9c-bgm47")),
    (("GET", "/api/v1/namespaces/fooobar", ""), ("get", CORE, "v1", "namespaces", "", "fooobar", "fooobar")),
]


@pytest.mark.parametrize(("asked", "expected"), OBSERVED, ids=lambda row: " ".join(row[:2]))
def test_an_observed_resource_request_is_resolved(asked: tuple[str, ...], expected: tuple[str, ...]) -> None:
    method, path, watch = asked
    verb, api_group, version, resource, subresource, namespace, name = expected

    found = resolve_kubernetes(method, path, {"watch": watch} if watch else {})

    assert found == Resolution(verb, Resource(resource, api_group, version, subresource, namespace, name))


@pytest.mark.parametrize("path", ["/openapi/v2", "/api", "/apis/coordination.k8s.io/v1beta1", "/healthz/zzz"])
def test_an_observed_request_without_a_resource_is_resolved(path: str) -> None:
    assert resolve_kubernetes("GET", path) == Resolution("get")


@pytest.mark.parametrize(
    "path", ["", "/", "*", "/api/v1", "/api/v1/", "/apis/apps/v1/", "/apis", "/apix/v1/pods", "//"]
)
def test_a_path_without_a_resource_keeps_the_method_as_its_verb(path: str) -> None:
    assert resolve_kubernetes("OPTIONS", path) == Resolution("options")


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("DELETE", "/api/v1/namespaces/x/pods", "deletecollection"),
        ("DELETE", "/api/v1/namespaces/x/pods/y", "delete"),
        ("HEAD", "/api/v1/namespaces/x/pods/y", "get"),
        ("get", "/api/v1/pods", "list"),
        ("GET", "/api/v1/pods/", "list"),
        ("OPTIONS", "/api/v1/pods", ""),
        ("GET", "/api/v1/watch/pods", "watch"),
        ("GET", "/api/v1/watch/namespaces/x/pods/y", "watch"),
        ("POST", "/api/v1/proxy/namespaces/x/pods/y/z", "proxy"),
        ("POST", "/api/v1/proxy/nodes/y", "proxy"),
    ],
)
def test_verbs_follow_from_method_and_path(method: str, path: str, verb: str) -> None:
    found = resolve_kubernetes(method, path)

    assert found.verb == verb
    assert found.resource is not None


def test_a_prefixed_verb_alone_is_no_resource_request() -> None:
    assert resolve_kubernetes("GET", "/api/v1/watch") == Resolution("get")


def test_a_proxied_path_is_not_a_subresource() -> None:
    found = resolve_kubernetes("GET", "/api/v1/proxy/namespaces/x/pods/y/some/where")

    assert found.resource == Resource("pods", "", "v1", "", "x", "y")


@pytest.mark.parametrize("subresource", ["status", "finalize"])
def test_a_namespace_has_subresources_of_its_own(subresource: str) -> None:
    found = resolve_kubernetes("PUT", f"/api/v1/namespaces/x/{subresource}")

    assert found.resource == Resource("namespaces", "", "v1", subresource, "x", "x")


def test_namespaces_can_be_listed() -> None:
    assert resolve_kubernetes("GET", "/api/v1/namespaces") == Resolution("list", Resource("namespaces", "", "v1"))


@pytest.mark.parametrize(
    ("watch", "verb"),
    [
        ("true", "watch"),
        ("1", "watch"),
        ("", "watch"),
        ("yes", "watch"),
        ("false", "list"),
        ("0", "list"),
        ("False", "list"),
    ],
)
def test_any_watch_parameter_except_false_and_0_is_a_watch(watch: str, verb: str) -> None:
    assert resolve_kubernetes("GET", "/api/v1/pods", {"watch": watch}).verb == verb


def test_a_get_of_a_named_object_is_no_watch() -> None:
    assert resolve_kubernetes("GET", "/api/v1/nodes/x", {"watch": "true"}).verb == "get"


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=x", "x"),
        ("metadata.name==x", "x"),
        ("status.phase=Running,metadata.name=x", "x"),
        (r"metadata.name=a\,b", "a,b"),
        ("metadata.name!=x", ""),
        ("metadata.name=x,nonsense", ""),
        (r"metadata.name=a\b", ""),  # not a character that must be escaped
        ("a!b=c,metadata.name=x", "x"),
        ("metadata.name=a/b", ""),
        ("metadata.name=a%2fb", ""),
        ("metadata.name=..", ""),
        ("metadata.namespace=x", ""),
        ("", ""),
        ("a=b," * 1000 + "metadata.name=x", "x"),
        ("a=b," * 1100 + "metadata.name=x", ""),  # to read selectors of any length would take too long
    ],
)
@pytest.mark.parametrize("watch", ["true", "false"])
def test_a_field_selector_can_name_the_listed_object(selector: str, name: str, watch: str) -> None:
    found = resolve_kubernetes("GET", "/api/v1/pods", {"watch": watch, "fieldSelector": selector})

    assert found.resource is not None
    assert found.resource.name == name


def test_a_field_selector_does_not_name_a_deleted_collection() -> None:
    found = resolve_kubernetes("DELETE", "/api/v1/pods", {"fieldSelector": "metadata.name=x"})

    assert found == Resolution("deletecollection", Resource("pods", "", "v1"))
