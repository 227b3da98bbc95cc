"""Keys of the request cache: all that a decision depends on, and nothing else."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from starlette.authentication import AuthCredentials
from starlette.types import Message, Receive, Scope, Send

from apf_middleware import APFMiddleware
from apf_middleware.asgi.identity import Authenticated, FunctionAuthenticator, build_chain
from apf_middleware.asgi.request_cache import LONGEST_KEY, CacheKeys, RequestCache, length_of
from apf_middleware.classification import FlowSchema, HttpRule, Identity, Rule, UserSubject, ValueMatch
from apf_middleware.config import load, load_text
from tests.support.asgi_exchange import http_scope

RULES = """
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: one}}
spec:
  level: anonymous
  {distinguisher}
  rules:
  - httpRules: [{rule}]
"""


def keys(rule: str = "{}", distinguisher: str = "") -> CacheKeys:
    configuration = load_text(RULES.format(rule=rule, distinguisher=distinguisher))
    return CacheKeys(configuration, build_chain(configuration.server))


def differs(made: CacheKeys, one: Scope, other: Scope) -> bool:
    return made.of_request(one) != made.of_request(other)


WHITE = http_scope("/a", "GET", {"host": "x", "x-plan": "gold"})


@pytest.mark.parametrize(
    ("rule", "distinguisher", "other"),
    [
        ("{}", "", http_scope("/b", "GET", {"host": "x", "x-plan": "gold"})),
        ("{}", "", http_scope("/a", "POST", {"host": "x", "x-plan": "gold"})),
        ("{}", "", {**WHITE, "client": ("10.0.0.1", 1)}),
        ("{}", "", {**WHITE, "root_path": "/mounted"}),
        ("{headers: [{name: X-Plan}]}", "", http_scope("/a", "GET", {"host": "x", "x-plan": "iron"})),
        ("{headers: [{name: X-Plan}]}", "", http_scope("/a", "GET", {"host": "x"})),
        ("{hosts: [y]}", "", http_scope("/a", "GET", {"host": "y", "x-plan": "gold"})),
        ("{query: [{name: q}]}", "", http_scope("/a?q=1", "GET", {"host": "x", "x-plan": "gold"})),
        ("{}", "distinguisher: {source: header, name: X-Plan}", http_scope("/a", "GET", {"x-plan": "iron"})),
        ("{}", "distinguisher: {source: query, name: q}", http_scope("/a?q=1", "GET", {"x-plan": "gold"})),
    ],
)
def test_what_a_decision_depends_on_counts(rule: str, distinguisher: str, other: Scope) -> None:
    assert differs(keys(rule, distinguisher), WHITE, other)


@pytest.mark.parametrize(
    "other",
    [
        http_scope("/a", "GET", {"host": "y", "x-plan": "iron", "more": "1"}),
        http_scope("/a?q=1"),
        {**WHITE, "client": ("127.0.0.1", 1), "state": {"a": 1}, "extensions": {"b": {}}},
    ],
)
def test_unread_parts_of_a_request_do_not_count(other: Scope) -> None:
    assert not differs(keys(), WHITE, other)


def test_a_header_counts_only_for_the_methods_that_are_asked_for_it() -> None:
    made = CacheKeys(load(), build_chain(load().server))  # where preflights are recognized by their headers
    origin = {"origin": "https://a", "access-control-request-method": "GET"}

    assert differs(made, http_scope("/", "OPTIONS"), http_scope("/", "OPTIONS", origin))
    assert not differs(made, http_scope("/"), http_scope("/", "GET", origin))


def test_a_rule_for_all_methods_counts_for_each() -> None:
    rule = HttpRule(methods=("*",), headers=(ValueMatch("x-plan"),))
    schema = FlowSchema("one", "anonymous", rules=(Rule((UserSubject("*"),), http_rules=(rule,)),))
    made = CacheKeys(replace(load(), schemas=(schema,)), build_chain(load().server))

    assert differs(made, WHITE, http_scope("/a", "GET", {"host": "x"}))


def test_what_counts_for_a_get_counts_for_a_head() -> None:
    made = keys("{methods: [GET], headers: [{name: X-Plan}]}")

    assert differs(made, http_scope("/", "HEAD"), http_scope("/", "HEAD", {"x-plan": "gold"}))
    assert not differs(made, http_scope("/", "POST"), http_scope("/", "POST", {"x-plan": "gold"}))


def test_the_whole_query_counts_where_a_cluster_is_spoken_to() -> None:
    configuration = load_text("apiVersion: apf/v1\nkind: Server\nmetadata: {name: s}\nspec: {resolver: kubernetes}")
    made = CacheKeys(configuration, build_chain(configuration.server))

    assert differs(made, http_scope("/api/v1/pods"), http_scope("/api/v1/pods?watch=1"))


def test_nothing_is_remembered_where_a_callable_may_look_at_anything() -> None:
    made = keys(distinguisher="distinguisher: {source: callable, callable: 'tests.unit.asgi.test_request_cache:flow'}")

    weighed = keys(distinguisher="weightFunction: 'tests.unit.asgi.test_request_cache:flow'")

    assert not made.is_memorable
    assert not weighed.is_memorable
    assert keys().is_memorable
    assert keys(distinguisher="weight: 2\n  groupWeights: {gold: 4}").is_memorable


def flow(_digest: object) -> str:
    return "x"


@pytest.mark.parametrize("client", [("10.0.0.1", 1), ["10.0.0.1", 1], None])
def test_a_request_is_found_again_in_whichever_form_the_server_passes_the_client(client: object) -> None:
    made = keys()
    cache: RequestCache[str] = RequestCache(made)
    scope = {**http_scope("/a"), "client": client}
    cache.put(made.of_request(scope), "found")

    assert "GET" in made.plain_methods
    assert cache.recall(scope) == "found"


_PLANS = [(b"x-plan", b"gold"), (b"host", b"x"), (b"x-plan", b"iron"), (b"x-team", b"blue")]


@pytest.mark.parametrize("wanted", ["{name: X-Plan}", "{name: X-Plan}, {name: X-Team}"])
@pytest.mark.parametrize(
    "form",
    [list, tuple, iter, lambda pairs: [[*pair] for pair in pairs]],
    ids=["list", "tuple", "iterator", "list of lists"],
)
def test_a_key_has_all_values_of_a_header_in_whichever_form_the_server_passes_them(
    form: Callable[[object], object], wanted: str
) -> None:
    made = keys(f"{{headers: [{wanted}]}}")
    found = made.of_request({**WHITE, "headers": form(_PLANS)})

    assert found == made.of_request({**WHITE, "headers": list(_PLANS)})
    for fewer in range(3):
        assert found != made.of_request({**WHITE, "headers": _PLANS[:fewer]})
    assert found != made.of_request({**WHITE, "headers": [*_PLANS, (b"x-plan", b"gold")]})


def test_values_of_a_header_are_not_taken_for_other_parts_of_a_key() -> None:
    made = keys("{headers: [{name: X-Plan}], query: [{name: q}]}")
    one = {**WHITE, "headers": [(b"x-plan", b"q=1")], "query_string": b""}
    other = {**WHITE, "headers": [(b"x-plan", b"")], "query_string": b"q=1"}

    assert made.of_request(one) != made.of_request(other)
    assert made.of_request({**one, "headers": []}) != made.of_request({**one, "headers": [(b"x-plan", b"")]})


def test_clients_that_invent_methods_do_not_fill_the_memory() -> None:
    made = keys()
    for number in range(1000):
        made.of_request(http_scope("/", f"M{number}"))

    assert len(made._by_method) <= 32


def test_the_usual_methods_are_remembered_after_clients_have_invented_some() -> None:
    made = keys()
    cache: RequestCache[str] = RequestCache(made)
    for method in (*(f"M{number}" for number in range(40)), "GET"):
        cache.put(made.of_request(http_scope("/", method)), method)

    assert "GET" in made._by_method
    assert "GET" in made.plain_methods
    assert cache.recall(http_scope("/", "GET")) == "GET"
    assert cache.recall(http_scope("/", "M1")) == "M1", "methods that are forgotten have the same keys"


def test_the_length_of_a_key_is_the_memory_that_it_takes() -> None:
    assert 1000 < length_of(("GET", "/" + 1000 * "a", None, (b"ab", b"cd"))) < 1500
    assert length_of(("GET", 500 * "\U0001f600")) > 2000


def test_a_header_that_is_repeated_makes_a_key_long() -> None:
    made = keys("{headers: [{name: X-Plan}]}")
    once, often = ([(b"x-plan", b"%d" % number) for number in range(most)] for most in (1, 1000))

    assert length_of(made.of_request({**WHITE, "headers": once})) < LONGEST_KEY
    assert length_of(made.of_request({**WHITE, "headers": often})) > 40_000


def test_the_key_of_a_caller_with_long_headers_is_shortened_without_mixing_callers_up() -> None:
    proxy = "{type: proxy, networks: [127.0.0.1], extraPrefixes: [X-Extra-]}"
    configuration = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{authentication: [{proxy}]}}\n")
    made = CacheKeys(configuration, build_chain(configuration.server))
    long = "a" * 3000
    values = [("ann", [long, "b"]), ("ann", [long + "b"]), ("ann", ["b", long]), ("bob", [long, "b"]), ("ann", [long])]
    several = [
        [(b"x-remote-user", user.encode()), *[(b"x-remote-group", group.encode()) for group in groups]]
        for user, groups in values
    ]
    found = [made.shortened(made.of_caller({**http_scope("/"), "headers": headers})) for headers in several]

    assert len(set(found)) == len(values)
    assert all(key is not None and length_of(key) < 300 for key in found)
    extra = made.of_caller(http_scope("/", headers={"x-remote-user": "ann", "x-extra-tenant": long}))
    assert made.shortened(extra) is None, "only headers with names that are known are shortened"
    assert keys().shortened(keys().of_caller(http_scope("/"))) is None


class Badges:
    """An app's own authenticator, which doesn't declare what it reads from a scope."""

    headers: frozenset[bytes] = frozenset()
    memorable = True

    def authenticate(self, scope: Scope) -> Authenticated | None:
        badge = scope.get("auth")
        return None if badge is None else Authenticated(Identity(badge.scopes[0]))

    def refresh(self) -> bool:
        return False


def test_headers_that_begin_as_a_proxy_s_extras_count_for_requests_and_callers() -> None:
    proxy = "{type: proxy, networks: [127.0.0.1], extraPrefixes: [X-Extra-]}"
    configuration = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{authentication: [{proxy}]}}\n")
    made = CacheKeys(configuration, build_chain(configuration.server))
    one, other = (
        http_scope("/a", "GET", {"x-remote-user": "ann", "x-extra-tenant": tenant}) for tenant in ("red", "blue")
    )
    for _ in range(2):  # also when the method is known
        assert made.of_request(one) != made.of_request(other)
        assert made.of_caller(one) != made.of_caller(other)
    assert not made.plain_methods


def test_all_parts_count_for_an_authenticator_that_declares_no_dependence() -> None:
    configuration = load_text(RULES.format(rule="{}", distinguisher=""))
    made = CacheKeys(configuration, build_chain(configuration.server, (Badges(),)))
    one, other = ({**http_scope("/a"), "auth": AuthCredentials([name])} for name in ("ann", "bob"))
    for _ in range(2):
        assert made.of_request(one) != made.of_request(other)
        assert made.of_caller(one) != made.of_caller(other)
    assert not made.plain_methods


async def identity_of(middleware: APFMiddleware, scope: Scope) -> Identity:
    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(_: Message) -> None:
        pass

    await middleware(scope, receive, send)
    identity: Identity = scope["apf"].identity
    return identity


@pytest.mark.anyio
async def test_no_request_gets_the_entry_of_a_different_one() -> None:
    proxy = "{type: proxy, networks: [127.0.0.1], extraPrefixes: [X-Extra-]}"
    text = f"apiVersion: apf/v1\nkind: Server\nspec: {{authentication: [{proxy}]}}\n"

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        pass

    proxied, badged = APFMiddleware(app, config=load_text(text)), APFMiddleware(app, authenticators=(Badges(),))
    for path in ("/same", "/same", "/other"):
        for name in ("red", "blue", "green"):
            scope = http_scope(path, "GET", {"x-remote-user": "ann", "x-extra-tenant": name})
            assert dict((await identity_of(proxied, scope)).extra) == {"tenant": (name,)}
            assert (await identity_of(badged, {**http_scope(path), "auth": AuthCredentials([name])})).name == name


class Plain:
    """A user, or an ``auth``, of another framework than Starlette."""

    def __init__(self, **more: object) -> None:
        vars(self).update(more)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "more_of",
    [
        lambda name: {"user": {"name": name}},
        lambda name: {"user": Plain(id=name)},
        lambda name: {"user": Plain(is_authenticated=True, id=name)},
        lambda name: {"auth": Plain(tenant=name)},
        lambda name: {"auth": Plain(scopes=[Plain(name=name)])},
        lambda name: {"extensions": {"tls": {"client_cert_name": "O=mesh", "client_cert_chain": [f"leaf of {name}"]}}},
        lambda name: {"extensions": {"tls": {"client_cert_chain": iter([f"leaf of {name}"])}}},
    ],
)
async def test_no_caller_gets_what_a_function_said_about_a_different_one(
    more_of: Callable[[str], dict[str, object]],
) -> None:
    """A function may read more of the user and the certificate than a name and scopes."""

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        pass

    authenticator = FunctionAuthenticator(lambda scope: Identity(scope["expected"]), headers=[])
    middleware = APFMiddleware(app, authenticators=[authenticator])
    for path in ("/same", "/same", "/other"):
        for name in ("red", "blue", "green"):
            found = await identity_of(middleware, {**http_scope(path), **more_of(name), "expected": name})
            assert found.name == name


@pytest.mark.anyio
async def test_facts_that_cannot_be_hashed_keep_a_caller_from_being_cached() -> None:
    class Listing(Badges):
        facts = (lambda scope: scope["auth"].scopes,)

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        pass

    middleware = APFMiddleware(app, authenticators=[Listing()])
    for name in ("red", "blue"):
        assert (await identity_of(middleware, {**http_scope("/"), "auth": AuthCredentials([name])})).name == name


def test_keys_that_contain_all_parts_of_others_cover_them() -> None:
    plain, by_query = keys(), keys("{query: [{name: a, values: [b]}]}")
    by_header = keys("{headers: [{name: X-Plan, values: [gold]}]}")

    assert plain.cover(plain)
    assert by_query.cover(plain)
    assert by_header.cover(plain)
    assert by_header.cover(by_header)
    assert not plain.cover(by_query)
    assert not plain.cover(by_header)
    assert not by_query.cover(by_header)
