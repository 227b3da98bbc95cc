import time
from dataclasses import dataclass

import pytest

from apf_middleware.classification import Resolution, Resource, RouteTable
from apf_middleware.exceptions import InvalidValueError


@dataclass(frozen=True)
class Route:
    path: str
    resource: str
    methods: tuple[str, ...] = ()
    subresource: str = ""


SHOP = RouteTable(
    [
        Route("/tenants/{namespace}/orders", "orders"),
        Route("/tenants/{namespace}/orders/{name}", "orders"),
        Route("/tenants/{namespace}/orders/{name}/cancel", "orders", subresource="cancel"),
        Route("/tenants/{namespace}/orders/latest", "latest"),
        Route("/tenants/all/{what}/{which}", "everything"),
        Route("/files/*", "files"),
        Route("/files/{name}", "files"),
        Route("/reports/*/{year}", "reports", ("get", "POST")),
        Route("/reports/*/{year}", "old-reports", ("DELETE",)),
        Route("/", "home"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", "/tenants/acme/orders", "list", Resource("orders", namespace="acme")),
        ("POST", "/tenants/acme/orders", "create", Resource("orders", namespace="acme")),
        ("DELETE", "/tenants/acme/orders", "deletecollection", Resource("orders", namespace="acme")),
        ("HEAD", "/tenants/acme/orders/7", "get", Resource("orders", namespace="acme", name="7")),
        ("PUT", "/tenants/acme/orders/7", "update", Resource("orders", namespace="acme", name="7")),
        ("PATCH", "/tenants/acme/orders/7", "patch", Resource("orders", namespace="acme", name="7")),
        ("DELETE", "/tenants/acme/orders/7", "delete", Resource("orders", namespace="acme", name="7")),
        (
            "POST",
            "/tenants/acme/orders/7/cancel",
            "create",
            Resource("orders", subresource="cancel", namespace="acme", name="7"),
        ),
        ("GET", "/", "list", Resource("home")),
        ("OPTIONS", "/files/a", "options", Resource("files", name="a")),
    ],
)
def test_a_route_resolves_to_verb_and_resource(method: str, path: str, verb: str, resource: Resource) -> None:
    found = SHOP.resolve(method, path)

    assert (found.verb, found.resource) == (verb, resource)


def test_a_literal_segment_takes_precedence_over_a_parameter() -> None:
    found = SHOP.resolve("GET", "/tenants/acme/orders/latest")

    assert found.resource == Resource("latest", namespace="acme")


def test_resolution_backtracks_from_a_literal_branch() -> None:
    """The literal ``/tenants/all`` begins another route, which has no third segment and fits only one of the paths."""
    assert SHOP.resolve("GET", "/tenants/all/orders").resource == Resource("orders", namespace="all")
    assert SHOP.resolve("GET", "/tenants/all/orders/7").resource == Resource("everything")


def test_everything_below_includes_the_path_itself_and_comes_last() -> None:
    assert SHOP.resolve("GET", "/files/a").resource == Resource("files", name="a")
    assert SHOP.resolve("GET", "/files/a/b/c").resource == Resource("files")
    assert SHOP.resolve("GET", "/files").resource == Resource("files")
    assert SHOP.resolve("GET", "/files/").resource == Resource("files")


def test_a_line_feed_may_be_a_parameter_or_be_overlooked() -> None:
    table = RouteTable([Route("/a/", "slash"), Route("/b/{name}", "named")])

    assert table.resolve("GET", "/a/\n").resource == Resource("slash")
    assert table.resolve("GET", "/b/\n").resource == Resource("named", name="\n")
    assert table.resolve("GET", "/a/\n/").resource is None


def test_routes_of_one_path_can_differ_by_method() -> None:
    assert SHOP.resolve("GET", "/reports/x/2024").resource == Resource("reports")
    assert SHOP.resolve("POST", "/reports/x/2024").resource == Resource("reports")
    assert SHOP.resolve("delete", "/reports/x/2024").resource == Resource("old-reports")
    assert SHOP.resolve("PUT", "/reports/x/2024") == Resolution("put")


def test_a_route_for_get_is_one_for_head_unless_there_is_another() -> None:
    assert SHOP.resolve("HEAD", "/reports/x/2024").resource == Resource("reports")
    table = RouteTable([Route("/a", "any"), Route("/a", "read", ("GET",)), Route("/b/*", "read", ("GET",))])
    assert table.resolve("HEAD", "/a").resource == Resource("read")
    assert table.resolve("HEAD", "/b/c").resource == Resource("read")
    own = RouteTable([Route("/a", "looked-at", ("HEAD",)), Route("/a", "read", ("GET",))])
    assert own.resolve("HEAD", "/a").resource == Resource("looked-at")


def test_parameters_are_kept_by_name() -> None:
    assert SHOP.resolve("GET", "/reports/x/2024").path_parameters == {"year": "2024"}
    assert SHOP.resolve("GET", "/tenants/all/a/b").path_parameters == {"what": "a", "which": "b"}
    assert SHOP.resolve("GET", "/tenants/acme/orders/7").path_parameters == {"namespace": "acme", "name": "7"}
    assert SHOP.resolve("GET", "/files").path_parameters == {}


@pytest.mark.parametrize(
    "path", ["/tenants", "/tenants//orders", "/tenants/acme/orders/", "/x", "", "tenants", "*", "//"]
)
def test_a_path_without_a_route_has_no_resource(path: str) -> None:
    assert SHOP.resolve("GET", path) == Resolution("get")


def test_an_empty_table_covers_nothing() -> None:
    assert RouteTable([]).resolve("GET", "/") == Resolution("get")
    assert repr(RouteTable([])) == "RouteTable: 0 routes"
    assert len(SHOP) == 10


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        ([Route("a/b", "x")], "path template is 'a/b', but it must be"),
        ([Route("/a/{b", "x")], "'{b' must be a name in braces without anything"),
        ([Route("/a/{1}", "x")], "'{1}' must be a name in braces without anything"),
        ([Route("/a/{b:path}", "x")], "'{b:path}' must be a name in braces without anything before or after it; /* "),
        ([Route("/a/:b", "x")], "':b' must be a name in braces"),
        ([Route("/a/<int:b>", "x")], "'<int:b>' must be a name in braces"),
        ([Route("/a/b{c}", "x")], "in 'b{c}', * or {name} must be a whole segment"),
        ([Route("/a*/b", "x")], "in 'a*', * or {name} must be a whole segment"),
        ([Route("/{a}/{a}", "x")], "each parameter must have a name of its own"),
        ([Route("/a", "")], "resource of the route '/a' is ''"),
        ([Route("/a/{b}", "x"), Route("/a/{c}", "y")], "route is '/a/{c}', but another route covers the same paths"),
        ([Route("/a", "x", ("GET",)), Route("/a", "y", ("get",))], "with GET"),
    ],
)
def test_an_invalid_table_is_refused(routes: list[Route], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        RouteTable(routes)

    assert message in str(caught.value)


def test_resolving_a_branching_path_is_linear_in_the_table() -> None:
    """Both branches at each of 12 segments would make 2^12 ends; this table has 13, and the path matches none."""
    routes = [Route("/" + "/".join(["a"] * n + [f"{{p{i}}}" for i in range(n, 12)]), "x") for n in range(12)]
    table = RouteTable(routes)
    path = "/a" * 12 + "/b" * 10_000

    begin = time.thread_time()
    assert table.resolve("GET", path) == Resolution("get")
    assert time.thread_time() - begin < 0.5
