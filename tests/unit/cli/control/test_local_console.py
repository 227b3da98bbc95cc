"""The local console: the address that works once, the cookie, hosts and origins, and what workers are asked."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from apf_middleware.cli.control.local_console import LocalConsole
from apf_middleware.cli.control.workers import UrlWorker, Worker

JSON = {"Content-Type": "application/json"}


class Shop(ThreadingHTTPServer):
    """A worker that records what it is asked, and answers with its name."""

    daemon_threads = True

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), Clerk)
        self.name = name
        self.status = 200
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.more = threading.Event()


class Clerk(BaseHTTPRequestHandler):
    server: Shop

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.command, self.path, headers, body))
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Set-Cookie", "worker=1")
        self.end_headers()
        answer = {"worker": self.server.name, "detail": f"{self.server.name} refuses."}
        self.wfile.write(json.dumps(answer).encode())
        if self.path.endswith("/events"):
            self.wfile.flush()
            self.server.more.wait(10)
            self.wfile.write(b"more")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None: ...


@dataclass
class World:
    """A console of two workers, and a browser that has not opened it yet."""

    shops: list[Shop]
    workers: list[Worker] = field(default_factory=list)
    cookie: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        address = [
            UrlWorker(f"http://127.0.0.1:{one.server_address[1]}/admin", {"Authorization": "Bearer t"})
            for one in self.shops
        ]
        self.workers = [*address]
        self.console = LocalConsole(lambda: self.workers)

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.console.port, timeout=10)
        given = ({"Cookie": self.cookie} if self.cookie else {}) | (headers or {})
        with closing(connection):
            connection.request(method, path, body, given)
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def page(self, path: str, number: int = 0) -> str:
        return f"{self.path}/{number}/{path}"

    def opened(self) -> "World":
        status, headers, _ = self.ask("GET", urlsplit(self.console.url).path)
        assert status == 303
        self.cookie = headers["set-cookie"].partition(";")[0]
        self.path = headers["location"].removesuffix("/0/console/?workers=2")
        return self


@pytest.fixture
def world() -> Iterator[World]:
    shops = [Shop("one"), Shop("two")]
    found = World(shops)
    servers = [*shops, found.console._http]
    threads = [threading.Thread(target=one.serve_forever, args=(0.01,)) for one in servers]
    for thread in threads:
        thread.start()
    yield found
    for one in shops:
        one.more.set()
    for server in servers:
        server.shutdown()
        server.server_close()
    for thread in threads:
        thread.join()


def test_the_address_works_once(world: World) -> None:
    url = urlsplit(world.console.url)
    world.opened()

    assert url.hostname == "127.0.0.1"
    assert world.ask("GET", url.path)[0] == 403
    assert world.ask("GET", "/open/")[0] == 403


def test_a_wrong_key_does_not_use_up_the_address(world: World) -> None:
    assert world.ask("GET", "/open/guess")[0] == 403
    assert world.ask("HEAD", urlsplit(world.console.url).path)[0] == 403
    assert world.opened().ask("GET", world.page("mode"))[0] == 200


def test_the_cookie_is_for_this_browser_and_this_path_only(world: World) -> None:
    _, headers, _ = world.ask("GET", urlsplit(world.console.url).path)
    parts = headers["set-cookie"].split("; ")

    assert {"HttpOnly", "SameSite=Strict"} < set(parts)
    assert len([one for one in parts if one.startswith("Path=/") and len(one) > 20]) == 1
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("cookie", ["", "apf_console=", "apf_console=guess", "other=1", 'apf_console="', "\x7f=;;"])
def test_without_the_cookie_nothing_is_shown(world: World, cookie: str) -> None:
    world.opened().cookie = cookie

    assert world.ask("GET", world.page("mode"))[0] == 403
    assert world.ask("GET", "/")[0] == 403
    assert [one.asked for one in world.shops] == [[], []]


@pytest.mark.parametrize(
    ("before", "after"),
    [("seen; ", ""), ("", "; seen"), ("=; ;a b=c d; ", ";"), ('quoted="x; ', ""), ("apf_console=old; ", "; k[]=é{}")],
)
def test_cookies_of_other_apps_do_not_matter(world: World, before: str, after: str) -> None:
    world.opened()
    world.cookie = f"{before}{world.cookie}{after}"

    assert world.ask("GET", world.page("mode"))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", ""])
def test_a_name_that_points_to_the_loopback_is_refused(world: World, host: str) -> None:
    key = urlsplit(world.console.url).path
    assert world.ask("GET", key, {"Host": host})[0] == 421
    world.opened()

    assert world.ask("GET", world.page("mode"), {"Host": host})[0] == 421
    assert world.ask("GET", world.page("mode"), {"Host": f"localhost:{world.console.port}"})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:PORT"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:PORT", "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_change_by_a_page_of_another_site_is_refused(world: World, headers: dict[str, str]) -> None:
    world.opened()
    own = {name: value.replace("PORT", str(world.console.port)) for name, value in headers.items()}

    assert world.ask("PUT", world.page("mode"), own | JSON, b"{}")[0] == 403
    assert [one.asked for one in world.shops] == [[], []]


def test_a_request_is_passed_on_with_the_credentials_of_the_command(world: World) -> None:
    headers = {"Accept": "application/json", "If-None-Match": '"tag"', "X-Other": "1", "Authorization": "mine"}
    status, answered, content = world.opened().ask("GET", world.page("dump_requests?format=json&flow=a%2Fb"), headers)
    [(method, path, sent, body)] = world.shops[0].asked

    assert (status, json.loads(content)["worker"]) == (200, "one")
    assert (method, path, body) == ("GET", "/admin/dump_requests?format=json&flow=a%2Fb", b"")
    assert (sent["authorization"], sent["if-none-match"]) == ("Bearer t", '"tag"')
    assert {"cookie", "x-other"} & set(sent) == set()
    assert answered["set-cookie"] is None
    assert world.shops[1].asked == []


@pytest.mark.parametrize("path", ["queues/crowd/pause", "gates/db/close", "mode", "reload", "shadow/promote"])
def test_a_change_goes_to_all_workers(world: World, path: str) -> None:
    own = {"Origin": f"http://127.0.0.1:{world.console.port}", "Sec-Fetch-Site": "same-origin"}
    status, _, content = world.opened().ask("POST", world.page(path, 1), own | JSON, b'{"a": 1}')

    assert (status, json.loads(content)["worker"]) == (200, "two")
    for shop in world.shops:
        [(method, asked, headers, body)] = shop.asked
        assert (method, asked, headers["content-type"], body) == (
            "POST",
            f"/admin/{path}",
            JSON["Content-Type"],
            b'{"a": 1}',
        )


@pytest.mark.parametrize(("method", "path"), [("GET", "queues/crowd/waiting"), ("POST", "recordings")])
def test_other_requests_go_to_the_worker_that_is_shown(world: World, method: str, path: str) -> None:
    assert world.opened().ask(method, world.page(path, 1), JSON, b"{}")[0] == 200
    assert (len(world.shops[0].asked), len(world.shops[1].asked)) == (0, 1)


def test_a_change_that_not_all_workers_make_is_reported(world: World) -> None:
    world.shops[1].status = 409
    status, _, content = world.opened().ask("POST", world.page("queues/a/open"), JSON, b"{}")
    detail = json.loads(content)["detail"]

    assert status == 409
    assert detail.startswith("Done by 1 of 2 workers. Worker 127.0.0.1:")
    assert detail.endswith("two refuses.")


def test_a_worker_that_has_ended_is_reported(world: World) -> None:
    world.opened()
    gone = UrlWorker("http://127.0.0.1:1/admin", {})
    world.workers = [gone, world.workers[1]]

    assert world.ask("GET", world.page("mode"))[0] == 502
    assert b"Done by 1 of 2" in world.ask("PUT", world.page("mode", 1), JSON, b"{}")[2]
    assert world.ask("GET", world.page("mode", 7))[0] == 502


def test_a_stream_is_passed_on_as_it_comes(world: World) -> None:
    world.opened()
    connection = http.client.HTTPConnection("127.0.0.1", world.console.port, timeout=10)
    with closing(connection):
        connection.request("GET", world.page("console/events"), headers={"Cookie": world.cookie})
        response = connection.getresponse()
        first = response.read1(1000)
        world.shops[0].more.set()
        rest = response.read()

    assert first.startswith(b'{"worker": "one"')
    assert rest == b"more"


@pytest.mark.parametrize(
    "headers",
    [*({"Content-Length": length} for length in ("3000000", "x", "²", "9" * 5000)), {"Transfer-Encoding": "chunked"}],
)
def test_a_body_must_be_short_and_have_a_length(world: World, headers: dict[str, str]) -> None:
    world.opened()
    connection = http.client.HTTPConnection("127.0.0.1", world.console.port, timeout=10)
    with closing(connection):
        connection.putrequest("POST", world.page("queues/a/open"))
        for name, value in (headers | {"Cookie": world.cookie}).items():
            connection.putheader(name, value)
        connection.endheaders()
        status = connection.getresponse().status

    assert status == 413
    assert world.shops[0].asked == []


@pytest.mark.parametrize("path", ["/FOLDER", "/FOLDER/x/mode", "/FOLDER/0", "/else/0/mode", "/FOLDER/²/mode"])
def test_other_paths_are_none_of_its_own(world: World, path: str) -> None:
    asked = path.replace("/FOLDER", world.opened().path).encode().decode("latin-1")

    assert world.ask("GET", asked.encode("ascii", "ignore").decode() if "²" in path else asked)[0] == 404


def test_all_workers_are_listed(world: World) -> None:
    status, headers, content = world.opened().ask("GET", f"{world.path}/")

    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert content.count(b"/console/?workers=2") == 2
