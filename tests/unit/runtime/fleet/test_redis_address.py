"""The address of Redis comes from the configuration, the environment and files; passwords are never shown."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from apf_middleware.config.fleet import FleetSettings, RedisSettings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.fleet.redis_address import resolve_address, resolve_labels


def login(settings: FleetSettings, environment: Mapping[str, str]) -> tuple[str, ...]:
    found = resolve_address(settings, environment).login
    assert found is not None
    return found.get_credentials()


def test_a_url_is_used_as_it_is() -> None:
    address = resolve_address(FleetSettings("rediss://user@cache:6380/2?ssl_ca_certs=/ca.pem"), {})

    assert address.url == "rediss://user@cache:6380/2?ssl_ca_certs=/ca.pem"
    assert address.credentials() == {}
    assert str(address) == "cache:6380/2"


def test_a_variable_may_have_the_url_with_a_password_that_is_never_shown() -> None:
    address = resolve_address(FleetSettings("env:CACHE"), {"CACHE": "redis://:hunter2@cache/0"})

    assert address.url == "redis://:hunter2@cache/0"
    assert "hunter2" not in repr(address)
    assert "hunter2" not in str(address)


@pytest.mark.parametrize("given", [{}, {"CACHE": ""}])
def test_a_variable_that_is_missing_is_named(given: Mapping[str, str]) -> None:
    with pytest.raises(InvalidValueError, match=r"fleet.store is 'CACHE', but this environment variable must be set"):
        resolve_address(FleetSettings("env:CACHE"), given)


def test_a_variable_without_a_url_of_redis_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidValueError, match="must be a URL of Redis, and begin with one of redis:") as caught:
        resolve_address(FleetSettings("env:CACHE"), {"CACHE": "amqp://:hunter2@queue"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2/x@cache:6379/0",
        "redis://:hunter2?x@cache:6379/0",
        "rediss://:hunter2#x@cache:6379/0",
        "redis://:22#hunter2@cache:6379/0",
        "redis://:22?hunter2@cache",
        "redis://ann:22?hunter2@cache",
        "redis://:22/hunter2@cache",
        "redis+cluster://:hunter[2@cache",
        "redis://cache?password=hunter@2",
        "redis://cache/hunter2",
        "redis://cache/-1",
        "unix://ann:hunter2#x@/run/redis",
    ],
)
def test_a_url_that_redis_py_would_misread_is_refused_without_showing_any_part_of_the_password(url: str) -> None:
    with pytest.raises(InvalidValueError, match="Write characters of a password such as") as caught:
        resolve_address(FleetSettings("env:CACHE"), {"CACHE": url})
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://cache",
        "redis://cache/",
        "redis://:%2F%23%3F%40@cache:6379/12",
        "redis://:hunter@2@[::1]:6379/0?socket_keepalive=1",
        "unix://ann:hunter2@/run/redis.sock?db=3",
        "rediss+cluster://cache:7000/0",
        "redis:///1",
    ],
)
def test_a_url_that_redis_py_reads_as_it_is_meant(url: str) -> None:
    assert resolve_address(FleetSettings("env:CACHE"), {"CACHE": url}).url == url.replace("+cluster", "")


def test_a_password_file_is_read_for_each_connection(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("first\r\nsecond line\n")
    settings = FleetSettings("redis://ann%40shop@cache", redis=RedisSettings(password_file=str(secret)))

    assert login(settings, {}) == ("ann@shop", "first")
    address = resolve_address(settings, {})
    assert address.url == "redis://cache"
    secret.write_text("changed")
    assert address.credentials()["credential_provider"].get_credentials() == ("ann@shop", "changed")


def test_a_password_may_be_a_variable() -> None:
    settings = FleetSettings("redis://cache", redis=RedisSettings(password_variable="SECRET"))  # noqa: S106 - its name

    assert login(settings, {"SECRET": "x"}) == ("x",)
    with pytest.raises(
        InvalidValueError, match=r"fleet.redis.passwordVariable is 'SECRET', but this environment variable must be set"
    ):
        resolve_address(settings, {})


def test_a_password_file_that_is_missing_is_named_at_the_start(tmp_path: Path) -> None:
    settings = FleetSettings("redis://cache", redis=RedisSettings(password_file=str(tmp_path / "none")))

    with pytest.raises(
        InvalidValueError, match=r"fleet.redis.passwordFile is .*none.*, but it must be a file with the password"
    ):
        resolve_address(settings, {})


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_the_address_of_a_cluster(scheme: str) -> None:
    address = resolve_address(FleetSettings(f"{scheme}+cluster://node:7000"), {})

    assert address.is_of_cluster
    assert address.url == f"{scheme}://node:7000"
    assert not resolve_address(FleetSettings(f"{scheme}://node:7000"), {}).is_of_cluster


def test_flows_are_keyed_with_the_name_of_the_fleet_and_a_secret(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("hush\n")

    def label(name: str, **redis: str) -> int:
        return resolve_labels(FleetSettings("redis://cache", name, redis=RedisSettings(**redis)), {"K": "hush"}).label(
            7
        )

    assert label("shop", flow_key_file=str(secret)) == label("shop", flow_key_variable="K")
    assert len({label("shop"), label("app"), label("shop", flow_key_variable="K"), 7}) == 4


@pytest.mark.parametrize("redis", [{"flow_key_file": "/nowhere"}, {"flow_key_variable": "K"}])
def test_a_secret_that_is_missing_is_named(redis: Mapping[str, str]) -> None:
    with pytest.raises(
        InvalidValueError, match=r"flowKeyFile is '/nowhere', but it must be|flowKeyVariable is 'K', but this"
    ):
        resolve_labels(FleetSettings("redis://cache", redis=RedisSettings(**redis)), {})
