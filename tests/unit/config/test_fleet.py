"""The settings of a fleet: their defaults, their rules, and the floor of each member."""

import pytest

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.fleet import FallbackSettings, FleetSettings
from apf_middleware.exceptions import InvalidValueError


def fleet(spec: str, server: str = "") -> FleetSettings | None:
    text = f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: 40, fleet: {spec}{server}}}\n"
    return load_text(text).server.fleet


def test_without_a_fleet_there_is_none() -> None:
    assert load_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 40}\n").server.fleet is None


def test_an_empty_fleet_has_the_defaults() -> None:
    settings = fleet("{}")

    assert settings == FleetSettings("host", "app", "", 250 * 10**6, 5 * 10**9, FallbackSettings(0, 0.2))


@pytest.mark.parametrize(
    ("members", "share", "floor"), [(0, 0.2, 0), (4, 0.2, 2), (8, 0.2, 1), (9, 0.2, 0), (4, 1.0, 10), (3, 1.0, 13)]
)
def test_the_floors_of_all_members_add_up_to_no_more_than_the_share(members: int, share: float, floor: int) -> None:
    assert FallbackSettings(members, share).floor(40) == floor
    assert members * floor <= share * 40


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("{store: memcached}", "spec.fleet.store is 'memcached', but it must be host, a URL of Redis, or env:"),
        ("{store: 'redis://'}", "spec.fleet.store is 'redis://', but it must be host, a URL of Redis, or env:"),
        ("{store: 'env:'}", "spec.fleet.store is 'env:', but it must be host, a URL of Redis, or env:"),
        ("{store: 'redis://x:port'}", "spec.fleet.store is 'redis://x:port', but it must be host, a URL"),
        ("{store: 'redis://:hunter2@x:port'}", "spec.fleet.store is 'x:port', but it must be host, a URL"),
        ("{store: 'redis://:hunter2@cache'}", "spec.fleet.store is 'cache', but it must not contain a password"),
        (
            "{store: 'redis://cache?password=hunter2'}",
            "spec.fleet.store is 'cache', but it must not contain a password",
        ),
        ("{store: 'redis://cache', directory: /run}", "spec.fleet.directory is '/run', but it is only for store: host"),
        ("{redis: {prefix: shop}}", "spec.fleet.redis is {prefix: 'shop'}, but it is only for a store in Redis"),
        ("{store: 'redis://x', redis: {prefix: '{}'}}", "spec.fleet.redis.prefix is '{}', but it must"),
        (
            "{store: 'redis://x', redis: {flowKeyFile: /x, flowKeyVariable: Y}}",
            "spec.fleet.redis.flowKeyFile is '/x', but it can't be combined with flowKeyVariable",
        ),
        (
            "{store: 'redis://x', redis: {passwordFile: /x, passwordVariable: Y}}",
            "spec.fleet.redis.passwordFile is '/x', but it can't be combined with passwordVariable",
        ),
        ("{name: ../x}", "spec.fleet.name is '../x', but it must be up to 40 letters"),
        ("{directory: run}", "spec.fleet.directory is 'run', but it must be an absolute path. Write it like /run/shop"),
        ("{lease: 600ms}", "spec.fleet.lease is '600ms', but it must be at least 3 times the interval"),
        ("{interval: 1ms}", "spec.fleet.interval is '1ms', but it must be at least 10ms"),
        ("{fallback: {share: 1.5}}", "spec.fleet.fallback.share is 1.5, but it must be at most 1"),
        ("{}, borrowing: periodic", "spec.borrowing is 'periodic', but a fleet's seats are lent at each dispatch"),
        ("{}, strictUpstream: true", "spec.strictUpstream is true, but a fleet's seats are lent at each dispatch"),
    ],
)
def test_what_is_wrong_is_said(spec: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        fleet(spec)
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "store", ["host", "redis://cache", "rediss://ann@cache:6380/1", "unix:///run/redis", "env:CACHE"]
)
def test_stores(store: str) -> None:
    settings = fleet(f"{{store: '{store}'}}")

    assert settings is not None
    assert settings.store == store
    assert settings.is_of_host is (store == "host")


def test_objects_are_checked_like_documents() -> None:
    with pytest.raises(InvalidValueError, match="lease_ns is 1, but it must be at least 3 times the interval"):
        FleetSettings(lease_ns=1)
