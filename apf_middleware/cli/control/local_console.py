"""The console of a server that a browser can't reach: a small HTTP server on the loopback, in front of the workers.

A browser can neither open a Unix socket nor send a bearer token with the first request for a page. This server can do
both for it, so it must let in only the person at the terminal:

- It listens on 127.0.0.1 only, and answers only requests whose ``Host`` is its own. A page of another site can point
  its own name to the loopback (DNS rebinding), but not change the name that the browser then sends.
- The printed address works once. It gives the browser a cookie that no script can read and that isn't sent with
  requests of other sites' pages, below a path that can't be guessed. So neither the history of the browser nor another
  server on the loopback, to which a browser sends the same cookies, opens the console again.
- A change must come from the page itself, as with the admin.

With several workers, each has a console of its own. Changes of queues, gates and modes go to all of them, as those of
other commands do.
"""

import http.client
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from apf_middleware.asgi.admin.protocol import LONGEST_CONFIGURATION
from apf_middleware.cli.control.workers import Worker

__all__ = ["LocalConsole"]

_COOKIE: Final = "apf_console"
_PASSED_ON: Final = ("accept", "content-type", "if-none-match")
_HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "server", "date", "set-cookie"})
_FOR_ALL: Final = ("queues/", "gates/", "mode", "reload", "shadow")
_PART_BYTES: Final = 64 * 1024
_PATIENCE_S: Final = 60.0  # until an answer begins; a recording may be silent for longer
_READING: Final = frozenset({"GET", "HEAD"})
_POLICY: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"


@dataclass(frozen=True, slots=True)
class _PageRequest:
    """A request of the page to a worker; ``path`` begins below the worker's admin."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None


class LocalConsole:
    """A server of the consoles of the workers that ``workers()`` returns, at a free port or ``port``.

    It listens from its creation on, and answers while `run` runs.
    """

    def __init__(self, workers: Callable[[], Sequence[Worker]], port: int = 0) -> None:
        self._workers = workers
        self._key: str = secrets.token_urlsafe(24)
        self._secret: str = secrets.token_urlsafe(32)
        self._folder: str = f"/{secrets.token_urlsafe(12)}"
        self._http = _LocalServer(("127.0.0.1", port), _Handler)
        self._http.console = self

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The address that works once."""
        return f"http://127.0.0.1:{self.port}/open/{self._key}"

    def run(self) -> None:
        """Answer until `end` is called in another thread, or an exception interrupts this one."""
        self._http.serve_forever(poll_interval=0.2)

    def end(self) -> None:
        """Let `run` return."""
        self._http.shutdown()

    def close(self) -> None:
        """Stop listening."""
        self._http.server_close()

    # Who may

    def is_own_host(self, host: str) -> bool:
        """Return whether a request was made to an address of this server, and not to a name that points here."""
        return host in {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}

    def take_key(self, key: str) -> bool:
        """Return whether ``key`` is that of the printed address, which works once."""
        is_right = bool(self._key) and compare_digest(key.encode(), self._key.encode())
        if is_right:
            self._key = ""
        return is_right

    def cookie(self) -> str:
        """Return the cookie for the browser, below the path of the consoles only."""
        return f"{_COOKIE}={self._secret}; Path={self._folder}/; HttpOnly; SameSite=Strict"

    def knows(self, cookies: str) -> bool:
        """Return whether a request has the cookie."""
        # Other apps on this host set cookies, too, and http.cookies reads none if one of them isn't as it expects.
        pairs = (one.strip().partition("=") for one in cookies.split(";"))
        secret = self._secret.encode()
        values = [value.encode() for name, _, value in pairs if name == _COOKIE]
        return any(compare_digest(value, secret) for value in values)

    # What is where

    def first_path(self) -> str:
        """Return the path of the first worker's console, which tells the page how many workers there are."""
        return f"{self._folder}/0/console/?workers={len(self._workers())}"

    def locate(self, path: str) -> tuple[int, str] | None:
        """Return the number of a worker and the path below its admin; None if ``path`` is none of these."""
        number, slash, rest = path.removeprefix(f"{self._folder}/").partition("/")
        if not path.startswith(f"{self._folder}/") or not slash or not (number.isascii() and number.isdigit()):
            return None
        return int(number), rest

    def is_list(self, path: str) -> bool:
        """Return whether ``path`` is that of the list of workers."""
        return path == f"{self._folder}/"

    def list_workers(self) -> bytes:
        """Return a page with a link to each worker's console."""
        workers = self._workers()
        links = "".join(
            f'<li><a href="{number}/console/?workers={len(workers)}">worker {escape(worker.name)}</a></li>'
            for number, worker in enumerate(workers)
        )
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>apf console: workers</title>'
        return f"{head}<h1>Workers</h1><ul>{links}</ul></html>".encode()

    def workers_for(self, number: int, question: _PageRequest) -> list[Worker]:
        """Return the workers that a request is for: the one that is shown first, and all others if it is a change."""
        workers = self._workers()
        if number >= len(workers):
            return []
        shown, is_for_all = workers[number], question.path.startswith(_FOR_ALL) and question.method not in _READING
        others = [worker for worker in workers if worker is not shown] if is_for_all else []
        return [shown, *others]

    def __repr__(self) -> str:
        return f"<LocalConsole at port {self.port}>"


class _LocalServer(ThreadingHTTPServer):
    """Serves each connection in a thread, and reports no clients that leave."""

    daemon_threads = True
    console: LocalConsole

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the end of a connection."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection, which is closed after the response."""

    server: _LocalServer
    server_version = "apf"
    sys_version = ""
    timeout = _PATIENCE_S

    def log_message(self, *_: object) -> None:
        """Log nothing: the worker logs changes."""

    def do_GET(self) -> None:
        console = self.server.console
        if not console.is_own_host(self.headers.get("host", "")):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "This server has another name.")
            return
        path = self.path.partition("?")[0]
        if path.startswith("/open/"):
            self._open(path.removeprefix("/open/"))
        elif not console.knows(self.headers.get("cookie", "")):
            self._refuse(HTTPStatus.FORBIDDEN, "Open the address that apf console has printed. It works once.")
        elif self.command not in _READING and self._is_foreign():
            self._refuse(HTTPStatus.FORBIDDEN, "A page of another site has sent this request.")
        elif console.is_list(path):
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", console.list_workers())
        elif (place := console.locate(self.path)) is not None:
            self._pass_on(*place)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - as above

    def _open(self, key: str) -> None:
        console = self.server.console
        if self.command != "GET" or not console.take_key(key):
            self._refuse(HTTPStatus.FORBIDDEN, "This address has been used. Run apf console again for another one.")
            return
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", console.first_path())
        self.send_header("Set-Cookie", console.cookie())
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _is_foreign(self) -> bool:
        """Return whether another site's page has sent a request."""
        origin, site = self.headers.get("origin"), self.headers.get("sec-fetch-site")
        is_own = origin is None or origin == f"http://{self.headers.get('host')}"
        return not is_own or site not in {None, "same-origin", "none"}

    def _pass_on(self, number: int, path: str) -> None:
        question = self._question(path)
        if question is None:
            return
        workers = self.server.console.workers_for(number, question)
        if not workers:
            self._refuse(HTTPStatus.BAD_GATEWAY, "This worker has ended.")
            return
        shown, *others = workers
        troubles = [trouble for worker in others if (trouble := _change(worker, question))]
        connection = shown.connect(_PATIENCE_S)
        try:
            with _ask(connection, shown, question, is_patient=True) as response:
                if troubles and 200 <= response.status < 300:
                    done = f"Done by {len(workers) - len(troubles)} of {len(workers)} workers"
                    self._refuse(HTTPStatus.CONFLICT, f"{done}. {' '.join(troubles)}")
                else:
                    self._stream(response)
        except (OSError, http.client.HTTPException) as error:
            self._refuse(HTTPStatus.BAD_GATEWAY, f"Worker {shown.name} doesn't answer: {error}.")
        finally:
            connection.close()

    def _question(self, path: str) -> _PageRequest | None:
        """Return the request for a worker; None if it has been refused."""
        length = self.headers.get("content-length", "0")
        is_known = "transfer-encoding" not in self.headers and re.fullmatch("[0-9]{1,9}", length) is not None
        if not is_known or int(length) > LONGEST_CONFIGURATION:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A body has at most {LONGEST_CONFIGURATION} bytes.")
            return None
        body = self.rfile.read(int(length)) if int(length) else None
        headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
        return _PageRequest(self.command, path, headers, body)

    def _stream(self, response: http.client.HTTPResponse) -> None:
        """Pass an answer on, part by part as it comes."""
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.end_headers()
        try:
            while part := response.read1(_PART_BYTES):
                self.wfile.write(part)
                self.wfile.flush()
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the browser or the worker has gone, and the response has begun

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        document = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
        self._answer(status, "application/problem+json", json.dumps(document).encode() + b"\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _ask(
    connection: http.client.HTTPConnection, worker: Worker, question: _PageRequest, *, is_patient: bool = False
) -> http.client.HTTPResponse:
    """Send a request to a worker, and return the answer before its body has come, for which one may be patient."""
    headers = {"Connection": "close", **question.headers, **worker.headers}
    connection.connect()
    socket = connection.sock
    connection.request(question.method, f"{worker.path}/{question.path}", question.body, headers)
    response = connection.getresponse()
    socket.settimeout(None if is_patient else _PATIENCE_S)
    return response


def _change(worker: Worker, question: _PageRequest) -> str:
    """Send a change to a worker; return why it hasn't succeeded, or an empty text."""
    connection = worker.connect(_PATIENCE_S)
    try:
        with _ask(connection, worker, question) as response:
            content = response.read(_PART_BYTES)
            if 200 <= response.status < 300:
                return ""
            try:
                detail = str(json.loads(content)["detail"])
            except (ValueError, KeyError, TypeError):
                detail = f"it answers {response.status}"
    except (OSError, http.client.HTTPException) as error:
        detail = str(error)
    finally:
        connection.close()
    return f"Worker {worker.name}: {detail}"
