"""Where a second configuration places requests that the real server has resolved."""

from copy import copy
from typing import Any

import anyio
import pytest
from starlette.types import Scope

from apf_middleware.asgi.identity import build_chain
from apf_middleware.asgi.resolver import RequestResolver, ResolvedRequest
from apf_middleware.asgi.shadow_places import ShadowPlaces
from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.config import Configuration, load_text
from apf_middleware.config.estimation import Sources
from apf_middleware.runtime import Controller
from apf_middleware.runtime.shadow import ShadowServer
from tests.support.asgi_exchange import http_scope

pytestmark = pytest.mark.anyio

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: 100, {spec}}}"


def config(spec: str = "defaults: web") -> Configuration:
    return load_text(SERVER.format(spec=spec))


def five_seats(_digest: RequestDigest, _place: Classification) -> int:
    return 5


class World:
    """The resolver of the real server, and the places of another configuration."""

    def __init__(self, real: Configuration, tried: Configuration) -> None:
        self.chain = build_chain(real.server)
        controller = Controller(real)
        self.resolver = RequestResolver(real, controller, self.chain)
        self.failures: list[Exception] = []
        self.server = ShadowServer(tried, controller.now, self.failures.append)
        self.places = ShadowPlaces(tried, self.server, self.chain, self.resolver.keys, Sources(self.server.costs))

    async def resolve(self, path: str, body: bytes = b"", **headers: str) -> tuple[Scope, ResolvedRequest]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        scope = http_scope(path, "POST" if body else "GET", named)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        found = await self.resolver.resolve(scope, 0, receive)
        assert isinstance(found, ResolvedRequest)
        return scope, found


async def test_equal_requests_share_a_place() -> None:
    world = World(config(), config())
    scope, real = await world.resolve("/orders")
    place = world.places.find(scope, real)

    assert place is not None
    assert world.places.find(dict(scope), real) is place
    assert place.destination.classification == real.classification
    assert place.destination.work == real.work
    assert place.tally is world.server.tallies.schema(real.classification.level, real.classification.schema)
    assert repr(world.places) == "<ShadowPlaces: 1 cached>"


async def test_another_identity_is_another_place() -> None:
    world = World(config(), config())
    scope, real = await world.resolve("/orders")
    place = world.places.find(scope, real)
    changed = copy(real)  # as after a refresh of credentials
    changed.identity = type(real.identity)("another")
    other = world.places.find(scope, changed)

    assert other is not place
    assert other is not None
    assert other.destination.identity.name == "another"


async def test_another_chain_forgets_the_places() -> None:
    world = World(config(), config())
    scope, real = await world.resolve("/orders")
    world.places.find(scope, real)
    world.places.adopt(world.chain, world.resolver.keys)

    assert repr(world.places) == "<ShadowPlaces: 0 cached>"


async def test_what_depends_on_state_is_not_kept() -> None:
    learned = "defaults: web, estimation: {default: {source: learned, seats: 3}}"
    world = World(config(), config(learned))
    scope, real = await world.resolve("/orders")
    place = world.places.find(scope, real)

    assert place is not None
    assert place.destination.route == "GET /orders"
    assert place.destination.work.seats == 3
    assert repr(world.places) == "<ShadowPlaces: 0 cached>"


async def test_functions_of_the_app_are_not_called_again() -> None:
    function = "tests.unit.asgi.test_shadow_places:five_seats"
    computed = f"defaults: web, estimation: {{default: {{source: callable, callable: '{function}'}}}}"
    world = World(config(), config(computed))
    scope, real = await world.resolve("/orders")
    place = world.places.find(scope, real)

    assert place is not None
    assert place.destination.work.seats == real.work.seats == 1
    assert world.places.unestimated == 1


BY_BODY = "defaults: web, estimation: {default: {source: body, name: n, mostSeats: 5, users: ['*']}}"


@pytest.mark.parametrize("reads", [True, False])
async def test_a_body_is_not_read_again(reads: bool) -> None:  # noqa: FBT001 - a case
    world = World(config(BY_BODY if reads else "defaults: web"), config(BY_BODY))
    scope, real = await world.resolve("/orders", b'{"n": 3}', content_type="application/json", content_length="8")
    place = world.places.find(scope, real)

    assert place is not None
    assert place.destination.work.seats == (3 if reads else 1)
    assert world.places.unestimated == (0 if reads else 1)


async def test_a_request_without_a_place_is_counted() -> None:
    naming = "defaults: web, queues: {header: X-Queue, groups: ['system:unauthenticated'], unknown: notFound}"
    world = World(config(), config(naming))
    scope, real = await world.resolve("/orders", X_Queue="nowhere")

    assert world.places.find(scope, real) is None
    assert world.places.unplaced == 1


async def test_the_criticality_is_read_from_the_headers() -> None:
    critical = load_text(
        SERVER.format(spec="defaults: web, criticality: {groups: ['system:unauthenticated']}")
        + "\n---\napiVersion: apf/v1\nkind: FlowSchema\nmetadata: {name: shed}\n"
        "spec: {level: catch-all, precedence: 5, rules: [{httpRules: [{criticality: [sheddable]}]}]}"
    )
    world = World(config(), critical)
    scope, real = await world.resolve("/orders", x_criticality="sheddable")
    place = world.places.find(scope, real)

    assert place is not None
    assert place.destination.classification.schema == "shed"


async def test_a_scope_that_lacks_parts_is_placed_without_the_cache() -> None:
    world = World(config(), config())
    scope, real = await world.resolve("/orders")
    del scope["client"]
    place = world.places.find(scope, real)

    assert place is not None
    assert world.places.find(scope, real) is not place
    await anyio.lowlevel.checkpoint()


async def test_a_place_is_found_by_the_real_result_only_if_that_depends_on_as_much() -> None:
    by_header = load_text(
        SERVER.format(spec="defaults: web") + "\n---\napiVersion: apf/v1\nkind: FlowSchema\nmetadata: {name: gold}\n"
        "spec: {level: catch-all, precedence: 5, rules: [{httpRules: [{headers: [{name: X-Plan, values: [gold]}]}]}]}"
    )
    world = World(config(), by_header)
    gold, real = await world.resolve("/orders", x_plan="gold")
    other, same = await world.resolve("/orders", x_plan="silver")
    assert same is real, "the real server doesn't look at this header"
    for _ in range(3):
        places = [world.places.find(scope, real) for scope in (gold, other)]
        assert [one and one.destination.classification.schema for one in places] == ["gold", "anonymous-clients"]


@pytest.mark.parametrize("path", ["/debug/pprof/profile", "/api/v1/namespaces/shop/pods/web/log"])
async def test_what_a_configuration_serves_without_seats_has_no_place_in_it(path: str) -> None:
    world = World(config(), config("defaults: kubernetes, resolver: kubernetes"))
    scope, real = await world.resolve(path)
    assert world.places.find(scope, real) is None
    assert world.places.unplaced == 1

    scope, real = await world.resolve("/api/v1/namespaces/shop/pods")
    assert world.places.find(scope, real) is not None
    assert world.places.unplaced == 1

    others = World(config(), config())
    scope, real = await others.resolve(path)
    assert others.places.find(scope, real) is not None
