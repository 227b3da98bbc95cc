"""``apf dump`` as a user runs it, against a real server, and against other and broken ones."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.config import load_text
from apf_middleware.config.admin import DEFAULT_PATH, AdminSettings
from tests.support.command_line import Outcome, run_apf
from tests.support.dumps import cells
from tests.support.protected_app import configuration, with_admin

OLGA = ("--header", "Authorization: Bearer secret-o")


def apf(*arguments: object, **environment: str) -> Outcome:
    """Run ``apf dump`` without the proxies and the token in the environment of the tests."""
    unset = dict.fromkeys(["APF_TOKEN", *(name for name in os.environ if "proxy" in name.lower())])
    return run_apf("dump", *arguments, **unset | environment)


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Run a real uvicorn with this app, and return its URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
        thread = threading.Thread(target=lambda: anyio.run(server.serve, [listener]))
        thread.start()
        try:
            until = time.monotonic() + 60
            while not server.started and time.monotonic() < until:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


over = threading.Event()


async def hold(scope: Scope, receive: Receive, send: Send) -> None:
    """Keep the seats until ``over`` is set."""
    while not over.is_set():  # noqa: ASYNC110 - another thread says so
        await anyio.sleep(0.02)
    await PlainTextResponse("held")(scope, receive, send)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    file.write_text('secret-o,olga,1,"operators"\nsecret-u,ulla,2,"users"\n')
    return file


def guarded(tokens: Path, header: str = "authorization", path: str = DEFAULT_PATH) -> APFMiddleware:
    authentication = f", authentication: [{{type: tokens, file: {json.dumps(str(tokens))}, header: {header}}}]"
    return with_admin(hold, configuration(server=authentication, wait="60s"), AdminSettings(path, ("operators",)))


@pytest.fixture(scope="module")
def server(tokens: Path) -> Iterator[str]:
    with served(guarded(tokens)) as url:
        yield url


@pytest.fixture(scope="module")
def busy(server: str) -> Iterator[str]:
    """Keep one request running and two waiting during the tests; which one runs is random."""
    over.clear()
    with httpx.Client(trust_env=False, timeout=60) as client:
        threads = []
        for user in ("elephant", "mouse", "mouse"):
            headers = {"X-User": user}
            threads.append(threading.Thread(target=client.get, args=(f"{server}/",), kwargs={"headers": headers}))
            threads[-1].start()
        until = time.monotonic() + 60
        while ["2", "1"] not in [row[4:6] for row in cells(apf(server, *OLGA).stdout)] and time.monotonic() < until:
            time.sleep(0.05)
        yield server
        over.set()
        for thread in threads:
            thread.join()


def test_levels_are_shown_by_default(busy: str) -> None:
    result = apf(busy, *OLGA)

    assert (result.returncode, result.stderr) == (0, "")
    rows = {row[0]: row for row in cells(result.stdout)}
    assert rows["PriorityLevelName"][4:6] == ["WaitingRequests", "ExecutingRequests"]
    assert rows["crowd"][4:6] == ["2", "1"]
    assert apf(busy, "levels", *OLGA).stdout == result.stdout


def test_requests_with_details_name_the_caller(busy: str) -> None:
    plain, detailed = apf(busy, "requests", *OLGA), apf(busy, "requests", *OLGA, "--details")

    assert sorted(row[4] for row in cells(plain.stdout)[1:]) == ["elephant", "mouse", "mouse"]
    assert "system:anonymous" not in plain.stdout
    assert [row[10] for row in cells(detailed.stdout)[1:]] == ["system:anonymous"] * 3


@pytest.mark.parametrize("what", ["levels", "queues", "requests", "configuration", "flows"])
def test_everything_comes_as_text_and_as_json(busy: str, what: str) -> None:
    text, as_json = apf(busy, what, *OLGA), apf(busy, what, *OLGA, "-o", "json")

    assert (text.returncode, as_json.returncode) == (0, 0)
    assert isinstance(json.loads(as_json.stdout)["documents" if what == "configuration" else what], list)
    if what == "configuration":
        assert load_text(text.stdout).levels["crowd"].queuing is not None
    else:
        assert text.stdout.startswith("PriorityLevelName, ")
    assert as_json.stdout.startswith("{\n  "), "for people too"


@pytest.mark.parametrize("order", ["work", "rejected", "waiting"])
def test_flows_come_in_the_requested_order(busy: str, order: str) -> None:
    result = apf(busy, "flows", *OLGA, "--by", order)

    assert result.returncode == 0
    assert {row[2] for row in cells(result.stdout)[1:]} == {"elephant", "mouse"}
    waiting = [int(row[7]) for row in cells(result.stdout)[1:]]
    assert order != "waiting" or waiting == sorted(waiting, reverse=True)


def test_credentials_can_be_given_in_three_ways(server: str, tokens: Path, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("secret-o\n")
    assert apf(server, "--token-file", str(secret)).returncode == 0
    assert apf(server, APF_TOKEN="secret-o").returncode == 0  # noqa: S106 - a test's
    assert apf(server, "--header", "Authorization: Bearer secret-o").returncode == 0
    with served(guarded(tokens, header="x-api-key", path="/internal/apf")) as url:
        assert apf(f"{url}/internal/apf/", "--header", "X-API-Key: secret-o").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "requires credentials: give --token-file, the variable APF_TOKEN, or --header"),
        (("--header", "Authorization: Bearer nonsense"), "doesn't accept these credentials"),
        (("--header", "Authorization: Bearer secret-u"), "doesn't authorize you: spec.admin.groups"),
    ],
)
def test_an_unauthorized_caller_gets_the_reason(server: str, arguments: tuple[str, ...], said: str) -> None:
    result = apf(server, *arguments)

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("apf: ")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_admin_that_is_off_or_elsewhere_is_not_there(tokens: Path) -> None:
    quiet = with_admin(Starlette(), configuration(), AdminSettings())
    with served(quiet) as url:
        result = apf(url)

    assert result.returncode == 1
    assert "doesn't exist: the server has no apf_middleware, another admin path, or its admin is off" in result.stderr


def test_another_server_that_answers_200_is_recognized() -> None:
    async def home(_request: Request) -> Response:
        return PlainTextResponse("<html>Welcome</html>")

    async def no(_request: Request) -> Response:
        return PlainTextResponse("no", 403)

    app = Starlette(routes=[Route("/no/{rest:path}", no), Route("/{rest:path}", home)])
    with served(app) as url:
        yes, forbidden = apf(url, "-o", "json"), apf(f"{url}/no")

    assert (yes.returncode, yes.stdout) == (1, "")
    assert "answers, but isn't apf's admin" in yes.stderr
    assert forbidden.stderr.rstrip().endswith("answers 403 Forbidden")


def test_credentials_do_not_go_to_a_proxy_of_the_environment(server: str) -> None:
    nobody = "http://127.0.0.1:1"

    assert apf(server, *OLGA, http_proxy=nobody, HTTP_PROXY=nobody, no_proxy="").returncode == 0


def test_credentials_do_not_follow_a_redirect() -> None:
    seen: list[str] = []

    async def elsewhere(request: Request) -> Response:
        seen.append(request.headers.get("authorization", ""))
        return PlainTextResponse("thanks")

    with served(Starlette(routes=[Route("/{rest:path}", elsewhere)])) as other:

        async def away(_request: Request) -> Response:
            return RedirectResponse(f"{other}/here")

        with served(Starlette(routes=[Route("/{rest:path}", away)])) as url:
            result = apf(url, *OLGA)

    assert result.returncode == 1
    assert f"redirects to '{other}/here'" in result.stderr
    assert seen == []


def test_a_refused_connection_is_reported() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # but doesn't listen
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        result = apf(url)

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"apf: {url} can't be asked: connection refused\n"


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "doesn't answer as a web server does"),
        (b"", "can't be asked"),
        (
            b"HTTP/1.1 200 OK\r\nx-apf-admin: 1\r\ncontent-length: 99\r\n\r\nshort",
            "doesn't answer as a web server does",
        ),
        (
            b"HTTP/1.1 200 OK\r\nx-apf-admin: 1\r\ncontent-length: 7\r\n\r\n<html>\n",
            "answers, but not with JSON",
        ),
        (None, "it didn't answer in time"),
    ],
    ids=["ssh", "closes", "stops", "no json", "silent"],
)
def test_another_protocol_is_reported(says: bytes | None, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        heard = threading.Event()

        def talk() -> None:
            connection, _ = listener.accept()
            with connection:
                if says is None:
                    heard.wait(10)
                else:
                    connection.recv(65536)
                    connection.sendall(says)

        thread = threading.Thread(target=talk)
        thread.start()
        patience = "0.5" if says is None else "30"  # a busy machine may take long to answer
        result = apf(f"http://127.0.0.1:{listener.getsockname()[1]}", "--timeout", patience, "-o", "json")
        heard.set()
        thread.join()

    assert (result.returncode, result.stdout) == (1, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("file:///etc/passwd",), "isn't like http://127.0.0.1:8000"),
        (("file://localhost/etc/passwd",), "isn't like http://127.0.0.1:8000"),
        (("localhost:8000",), "isn't like http://127.0.0.1:8000"),
        (("http://",), "isn't like http://127.0.0.1:8000"),
        (("http://127.0.0.1:99999",), "isn't like http://127.0.0.1:8000"),
        (("http://olga:secret@127.0.0.1",), "no user, query or fragment"),
        (("http://127.0.0.1/?x=1",), "no user, query or fragment"),
        (("http://127.0.0.1", "seats"), "seats"),
        (("http://127.0.0.1", "--header", "nonsense"), "is not NAME:VALUE"),
        (("http://127.0.0.1", "--header", "X: a\r\nY: b"), "printable ASCII"),
        (("http://127.0.0.1", "--token-file", "/nowhere"), "it can't be read"),
    ],
)
def test_invalid_options_send_no_request(arguments: tuple[str, ...], said: str) -> None:
    result = apf(*arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
