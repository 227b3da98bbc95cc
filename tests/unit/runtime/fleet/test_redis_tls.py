"""Connections to Redis share a TLS context as long as its files are the same."""

from pathlib import Path

import pytest
from redis.asyncio import Connection, SSLConnection

from apf_middleware.runtime.fleet.redis_tls import SharedTlsContext
from tests.support.certificates import Authority


@pytest.fixture
def shared() -> SharedTlsContext:
    return SharedTlsContext()


def connection(shared: SharedTlsContext, **options: str) -> SSLConnection:
    made = SSLConnection(**options)  # type: ignore[arg-type]
    shared.share(made)
    return made


def test_it_is_the_same_for_all(shared: SharedTlsContext, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    certificate, key = map(str, authority.issue("client"))
    options = {"ssl_ca_certs": str(authority.certificate), "ssl_certfile": certificate, "ssl_keyfile": key}

    assert connection(shared, **options).ssl_context.get() is connection(shared, **options).ssl_context.get()


@pytest.mark.parametrize("changed", ["authority.pem", "client.pem"])
def test_it_is_made_anew_when_a_file_has_changed(shared: SharedTlsContext, tmp_path: Path, changed: str) -> None:
    authority = Authority(tmp_path, "authority")
    certificate, key = map(str, authority.issue("client"))
    options = {"ssl_ca_certs": str(authority.certificate), "ssl_certfile": certificate, "ssl_keyfile": key}
    former = connection(shared, **options).ssl_context.get()

    with (tmp_path / changed).open("a") as file:
        file.write("\n")

    assert connection(shared, **options).ssl_context.get() is not former


def test_a_file_that_was_missing_is_read_when_it_is_there(shared: SharedTlsContext, tmp_path: Path) -> None:
    path = str(tmp_path / "authority.pem")
    with pytest.raises(FileNotFoundError):
        connection(shared, ssl_ca_certs=path).ssl_context.get()

    Authority(tmp_path, "authority")

    assert connection(shared, ssl_ca_certs=path).ssl_context.get().get_ca_certs()


def test_plain_connections_have_none(shared: SharedTlsContext) -> None:
    plain = Connection()

    shared.share(plain)

    assert not hasattr(plain, "ssl_context")
