"""What a recording shows of a request."""

from types import SimpleNamespace
from urllib.parse import parse_qs, urlencode

import pytest

from apf_middleware.asgi.recording import Disguise, NeededFacts
from apf_middleware.asgi.recording.disguise import route_of
from apf_middleware.classification import Identity
from apf_middleware.config import load_text
from apf_middleware.recordings import Pseudonyms

KEY = bytes(32)
HASH = Pseudonyms(KEY).of
FACTS = NeededFacts(
    load_text(
        """
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 100}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: gold}
spec:
  level: crowd
  distinguisher: {source: header, name: X-Tenant}
  rules:
  - subjects: [{user: alice}, {group: staff}]
    httpRules:
    - paths: ["/reports/*"]
      hosts: ["*.example.com", shop.test]
      headers: [{name: X-Plan, values: [gold]}, {name: Authorization}]
      query: [{name: dry, values: ["1"]}, {name: tenant}]
"""
    )
)
HEADERS = [
    (b"host", b"acme.example.com"),
    (b"x-tenant", b"acme"),
    (b"x-plan", b"gold"),
    (b"x-plan", b"second"),
    (b"authorization", b"Bearer secret"),
    (b"x-other", b"unneeded"),
]


@pytest.fixture
def hashed() -> Disguise:
    return Disguise(FACTS, Pseudonyms(KEY))


@pytest.fixture
def plain() -> Disguise:
    return Disguise(FACTS, Pseudonyms(KEY), are_plain=True)


def test_callers_are_hashed_unless_the_configuration_names_them(hashed: Disguise) -> None:
    assert hashed.user(Identity("bob")) == HASH("bob")
    assert hashed.user(Identity("alice")) == "alice"
    assert hashed.user(Identity("system:anonymous")) == "system:anonymous"
    assert hashed.user(Identity("system:serviceaccount:shop:api")) == f"system:serviceaccount:shop:{HASH('api')}"
    assert hashed.groups(Identity("bob", ("staff", "vip", "system:authenticated"))) == (
        "staff",
        HASH("vip"),
        "system:authenticated",
    )
    assert hashed.name("10.1.2.3") == HASH("10.1.2.3")


def test_plain_names_are_as_they_are(plain: Disguise) -> None:
    assert plain.user(Identity("bob")) == "bob"
    assert plain.groups(Identity("bob", ("vip",))) == ("vip",)
    assert plain.name("acme") == "acme"
    assert plain.path("/users/7", b"") == "/users/7"
    assert plain.path("/what?x=1/100%/ß", b"") == "/what%3Fx=1/100%25/ß", "as in a URL"
    assert plain.host(HEADERS) == "acme.example.com"


def test_headers_that_nothing_reads_are_left_out_and_credentials_are_always_hashed(
    hashed: Disguise, plain: Disguise
) -> None:
    secret = HASH("Bearer secret")

    assert hashed.headers(HEADERS) == {"x-tenant": HASH("acme"), "x-plan": "gold", "authorization": secret}
    assert plain.headers(HEADERS) == {"x-tenant": "acme", "x-plan": "gold", "authorization": secret}
    assert Disguise(NeededFacts(load_text("")), Pseudonyms(KEY)).headers(HEADERS) == {}


def test_hosts_match_as_before(hashed: Disguise) -> None:
    assert hashed.host(HEADERS) == f"{HASH('acme')}.example.com"
    assert hashed.host([(b"host", b"shop.test")]) == "shop.test"
    assert hashed.host([(b"host", b"other.test")]) == HASH("other.test")
    assert hashed.host([]) == ""
    assert Disguise(NeededFacts(load_text("")), Pseudonyms(KEY)).host(HEADERS) == ""


@pytest.mark.parametrize(
    ("path", "route", "shown"),
    [
        ("/reports/7", "", "/reports/{7}"),
        ("/users/alice", "/users/{name}", "/users/{alice}"),
        ("/users/alice", "", "/{users}/{alice}"),
        ("/files/a/b/c", "/files/{path:path}", "/{files}/{a}/{b}/{c}"),
        ("/", "", "/"),
        ("/reports//7/", "", "/reports//{7}/"),
    ],
)
def test_segments_that_are_no_literals_of_routes_are_hashed(
    hashed: Disguise, path: str, route: str, shown: str
) -> None:
    for segment in path.split("/"):
        shown = shown.replace(f"{{{segment}}}", HASH(segment))

    assert hashed.path(path, b"", route) == shown


def test_literals_of_routes_are_learned(hashed: Disguise) -> None:
    hashed.learn("/users/{name}")

    assert hashed.path("/users/alice", b"") == f"/users/{HASH('alice')}"
    hashed.adopt(NeededFacts(load_text("")))
    assert hashed.path("/users/alice", b"") == f"/users/{HASH('alice')}"


def test_a_query_keeps_what_the_configuration_reads(hashed: Disguise, plain: Disguise) -> None:
    query = b"token=secret&dry=1&tenant=acme&dry=2"

    assert hashed.path("/reports", query) == f"/reports?dry=1&tenant={HASH('acme')}"
    assert plain.path("/reports", query) == "/reports?dry=1&tenant=acme"
    assert plain.path("/reports", b"token=secret") == "/reports"
    assert plain.path("/reports", b"tenant=a%26b%3D%C3%A9") == "/reports?tenant=a%26b%3D%C3%A9"


def test_a_repeated_parameter_keeps_the_values_that_a_rule_names(hashed: Disguise) -> None:
    query = b"dry=0&dry=2&dry=%31&dry=1&tenant=&tenant=acme"

    assert hashed.path("/reports", query) == f"/reports?dry={HASH('0')}&dry=1&tenant={HASH('')}"


@pytest.mark.parametrize(
    ("selector", "shown"),
    [
        ("metadata.name=acme", f"metadata.name={HASH('acme')}"),
        ("spec.nodeName==n,metadata.name!=x", f"spec.nodeName=={HASH('n')},metadata.name!={HASH('x')}"),
        ("metadata.name=", "metadata.name="),
        ("acme", HASH("acme")),
        ("status.phase=Running", HASH("status.phase=Running")),
        (r"metadata.name=a\,b", rf"metadata.name={HASH('a' + chr(92))},{HASH('b')}"),
        (" metadata.name=acme", HASH(" metadata.name=acme")),
    ],
)
def test_names_in_selectors_of_fields_are_hashed(selector: str, shown: str) -> None:
    kubernetes = NeededFacts(load_text("apiVersion: apf/v1\nkind: Server\nspec: {defaults: kubernetes}"))
    query = urlencode({"watch": "true", "fieldSelector": selector})
    found = Disguise(kubernetes, Pseudonyms(KEY)).path("/api/v1/pods", query.encode())

    assert parse_qs(found.partition("?")[2], keep_blank_values=True) == {"watch": ["true"], "fieldSelector": [shown]}


def test_long_texts_are_cut_off(plain: Disguise) -> None:
    assert len(plain.path("/" + "x" * 100_000, b"")) == 2048
    assert len(plain.user(Identity("x" * 100_000))) == 2048


def route(path: str) -> SimpleNamespace:
    return SimpleNamespace(path=path)


@pytest.mark.parametrize(
    ("scope", "path", "found"),
    [
        ({}, "/u/7", ""),
        ({"path_template": "/p/{y}"}, "/p/7", "/p/{y}"),
        ({"route": route("/u/{name}"), "root_path": "/api"}, "/u/7", "/u/{name}"),
        ({"route": route("/u/{name}"), "root_path": "/api/shop"}, "/shop/u/7", "/shop/u/{name}"),
        ({"route": route("/files/{rest:path}")}, "/files/a/b/c", "/files/{rest:path}"),
        ({"route": route("/files/{rest:path}")}, "/files", ""),
        ({"route": route("/shop"), "root_path": "/api/shop"}, "/shop/unknown", ""),
        ({"route": route("/u/{name}")}, "/v/7", ""),
        ({"route": route("/u/{name}/" + "x" * 3_000)}, "/u/7/" + "x" * 3_000, ""),
        ({"route": object()}, "/u/7", ""),
        ({"route": SimpleNamespace(path=7)}, "/u/7", ""),
    ],
)
def test_frameworks_say_which_route_a_request_has_taken(scope: dict[str, object], path: str, found: str) -> None:
    assert route_of(scope, "/api" if "root_path" in scope else "", path) == found


def test_a_route_that_raises_is_unknown() -> None:
    class Broken:
        @property
        def path(self) -> str:
            raise RuntimeError

    assert route_of({"route": Broken()}, "", "/u/7") == ""
