"""Bytes that no client should send, to a real server: an answer, never an error, and nobody is let in by them."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import Server, serve

pytestmark = pytest.mark.timeout(60)

CONFIG = Path(__file__).parent / "data" / "guarded.yaml"


@pytest.fixture(scope="module", params=["httptools", "h11"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    options = ("--http", request.param, "--no-proxy-headers")
    with serve("tests.e2e.playground:app", *options, environment={"APF_TEST_CONFIG": str(CONFIG)}) as running:
        yield running


def ask(server: Server, *headers: bytes, line: bytes = b"GET /who HTTP/1.1", body: bytes = b"") -> tuple[int, bytes]:
    """Return the status and the whole response."""
    request = b"\r\n".join([line, b"Host: x", b"Connection: close", *headers, b"", body])
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1."), "whatever comes is answered"
    return int(answer.split(b" ", 2)[1]), answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([b"X-API-Key: right-key"], 200),
        ([b"Authorization: Bearer right-key"], 200),
        ([b"Authorization: bearer right-key"], 200),
        ([b"Authorization: Bearer wrong"], 401),
        ([b"Authorization: Bearer"], 401),
        ([b"Authorization: Bearer right-key extra"], 401),
        ([b"Authorization: Bearer \xff\xfe\x80"], 401),
        ([b"Authorization: Bearer right-key", b"Authorization: Bearer right-key"], 401),
        ([b"Authorization: Bearer " + b"x" * 20_000], 401),
        ([b"X-API-Key: \xe9\xff"], 401),
        ([b"X-API-Key: right-key", b"X-API-Key: other"], 401),
        ([b"Authorization: Basic cmlnaHQ6a2V5"], 200),  # not of a kind that is asked for: a stranger's request
        ([b"X-Remote-User: root", b"X-Remote-Group: system:masters"], 200),
        ([b"X-Forwarded-For: \xff\xff, ,,::::,999.1.1.1"], 200),
        ([b"X-Forwarded-For: " + b"127.0.0.1, " * 2000], 200),
        ([b"Cookie: \x80\x81"], 200),
    ],
)
def test_odd_headers_are_answered_and_authenticate_no_caller(server: Server, headers: list[bytes], status: int) -> None:
    answered, answer = ask(server, *headers)

    assert answered in {status, 400, 431}, "a server may refuse by itself what isn't HTTP"
    if answered == 200:
        known = any(b"right-key" in header for header in headers)
        assert (b'"level":"users"' in answer) is known, answer
        assert b"exempt" not in answer
    if answered == 401:
        assert b"www-authenticate:" in answer.lower()
        assert b"application/problem+json" in answer.lower()


@pytest.mark.parametrize(
    "line",
    [
        b"GET /who?" + b"a=b&" * 3000 + b" HTTP/1.1",
        b"GET /who?%ff=%fe&=&&&%00 HTTP/1.1",
        b"GET /%ff%00%2e%2e/who HTTP/1.1",
        b"GET //who HTTP/1.1",
        b"BREW /who HTTP/1.1",
        b"get /who HTTP/1.1",
        b"GET http://else.where/who HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
    ],
)
def test_odd_request_lines_are_answered(server: Server, line: bytes) -> None:
    status, _ = ask(server, line=line)

    assert status < 500


def test_a_malformed_body_affects_no_other_request(server: Server) -> None:
    for headers, body in (
        ([b"Content-Length: 100"], b"short"),
        ([b"Transfer-Encoding: chunked"], b"zz\r\nnot a chunk\r\n"),
        ([b"Content-Length: -1"], b""),
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(b"\r\n".join([b"POST /echo HTTP/1.1", b"Host: x", *headers, b"", body]))
    for _ in range(30):
        assert ask(server)[0] == 200
    assert ask(server, b"Authorization: Bearer wrong")[0] == 401
    metrics = ask(server, line=b"GET /metrics HTTP/1.1")[1].decode()
    waiting = [line for line in metrics.splitlines() if line.startswith("apf_current_inqueue_requests{")]
    assert [line.rpartition(" ")[2] for line in waiting] == ["0"] * len(waiting)
    assert 'apf_authentication_failures_total{reason="unknown-token"}' in metrics
