"""Members meet at a real Redis by TLS, and neither an outage nor new certificates keep them apart."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import databases
from tests.support.certificates import Authority
from tests.support.fleet_members import FleetProcess, running, until
from tests.support.prerequisites import require_program
from tests.support.servers import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TIMES = "interval: 50ms, lease: 2s"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
def port(authority: Authority) -> Iterator[int]:
    """Return the port of a server that wants to see certificates of its clients."""
    require_program(databases.redis_program(), "redis-server")
    certificate, key = map(str, authority.issue("server"))
    own = "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", str(authority.certificate)
    port = free_port()
    with databases.redis(None, "--tls-port", str(port), *own):
        yield port


def address(port: int, authority: Path, certificate: Path, key: Path) -> str:
    return f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={authority}&ssl_certfile={certificate}&ssl_keyfile={key}"


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[ssl.SSLContext]:
    """Return the contexts that have been made, which redis-py does for each of its own connections."""
    made: list[ssl.SSLContext] = []
    make = ssl.create_default_context

    def note() -> ssl.SSLContext:
        made.append(make())
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", note)
    return made


async def test_tries_in_an_outage_use_one_context(authority: Authority, contexts: list[ssl.SSLContext]) -> None:
    """It takes 25 ms to make one, in which the event loop does nothing else."""
    member = FleetProcess(f"store: 'rediss://127.0.0.1:{free_port()}/0?ssl_ca_certs={authority.certificate}', {TIMES}")
    contexts.clear()  # the check of the address has made one
    async with running(member):
        await until(lambda: member.fleet._failures._number >= 4, member)  # type: ignore[attr-defined]
    assert len(contexts) == 1


async def test_a_member_reads_a_certificate_that_has_been_replaced(
    port: int, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stranger = Authority(other, "stranger")
    certificate, key = stranger.issue("client")
    member = FleetProcess(f"store: '{address(port, authority.certificate, certificate, key)}', {TIMES}")
    async with running(member):
        await until(lambda: "alert unknown ca" in caplog.text, member)
        assert not member.seats
        for path, issued in zip((certificate, key), authority.issue("client"), strict=True):
            await asyncio.to_thread(issued.replace, path)
        await until(lambda: member.seats >= 1, member)


async def test_a_server_that_is_not_trusted_is_named(
    port: int, tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path, "stranger")
    member = FleetProcess(f"store: '{address(port, stranger.certificate, *authority.issue('client'))}', {TIMES}")
    async with running(member):
        await until(lambda: "certificate verify failed" in caplog.text, member)
        assert not member.seats
