"""A server's workers, and how each is asked: by its unix socket, or by the address of its admin.

All workers are asked at once, each with its own patience, so that one that hangs costs no more than that. What a worker
answers, or why it doesn't, is a value; what the answers come to together is told elsewhere.
"""

import http.client
import json
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlsplit

from apf_middleware.config.sockets import SocketFile

__all__ = ["Reply", "SocketWorker", "UrlWorker", "Worker", "ask_all", "page"]

_MARK: Final = "x-apf-admin"
_MOST_BYTES: Final = 64 * 2**20
_MOST_AT_ONCE: Final = 64

_Asked = tuple[str, str, bytes | None, Mapping[str, str]]
"""Method, path, body and headers."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What one worker said: a document with its status, or why there is none."""

    worker: str
    status: int = 0
    document: dict[str, Any] = field(default_factory=dict)
    silence: str = ""

    @property
    def is_done(self) -> bool:
        """Whether it did as it was asked."""
        return 200 <= self.status < 300

    @property
    def is_silent(self) -> bool:
        """Whether it can't be said what it did."""
        return not self.status

    @property
    def trouble(self) -> str:
        """Why it didn't."""
        return self.silence or str(self.document.get("detail") or f"it answers {self.status}")


@dataclass(frozen=True, slots=True)
class SocketWorker:
    """The process behind a unix socket."""

    file: SocketFile

    @property
    def name(self) -> str:
        return str(self.file.pid)

    def ask(self, method: str, path: str, body: bytes | None, timeout: float) -> Reply:
        """One request."""
        connection = _UnixConnection(os.fspath(self.file.path), timeout)
        return _asked(self.name, connection, (method, path, body, {}))


@dataclass(frozen=True, slots=True)
class UrlWorker:
    """Whichever worker answers at an address."""

    url: str
    headers: Mapping[str, str]

    @property
    def name(self) -> str:
        return urlsplit(self.url).netloc

    def ask(self, method: str, path: str, body: bytes | None, timeout: float) -> Reply:
        """One request; redirects aren't followed, for credentials go to the server that was named."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        connection = (
            http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, parts.port, timeout=timeout)
        )
        return _asked(self.name, connection, (method, parts.path + path, body, self.headers))


Worker = SocketWorker | UrlWorker


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("apf", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def page(*steps: str) -> str:
    """The path of a page, names made harmless."""
    return "/" + "/".join(quote(step, safe="") for step in steps)


def ask_all(
    workers: Sequence[Worker], method: str, path: str, order: Mapping[str, object] | None = None, *, timeout: float
) -> list[Reply]:
    """The replies of all, in their order."""
    body = None if order is None else json.dumps(order).encode()
    ask = partial(_ask, method=method, path=path, body=body, timeout=timeout)
    if len(workers) < 2:
        return [ask(worker) for worker in workers]
    with ThreadPoolExecutor(min(len(workers), _MOST_AT_ONCE), thread_name_prefix="apf") as threads:
        return list(threads.map(ask, workers))


def _ask(worker: Worker, *, method: str, path: str, body: bytes | None, timeout: float) -> Reply:
    return worker.ask(method, path, body, timeout)


def _asked(name: str, connection: http.client.HTTPConnection, asked: _Asked) -> Reply:
    method, path, body, more = asked
    headers = {"Accept": "application/json", "Connection": "close", **more}
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # it may have refused before it had heard all
            connection.request(method, path, body, headers)
        with connection.getresponse() as response:
            content = response.read(_MOST_BYTES)
            mark, location = response.getheader(_MARK), response.getheader("location")
    except TimeoutError:
        return Reply(name, silence="it didn't answer in time; --timeout gives it longer")
    except OSError as error:
        return Reply(name, silence=(error.strerror or str(error)).lower())
    except (http.client.HTTPException, ValueError) as error:
        return Reply(name, silence=f"it doesn't answer as a web server does: {type(error).__name__}: {error}")
    finally:
        connection.close()
    return _understood(name, response.status, content, mark, location)


def _understood(name: str, status: int, content: bytes, mark: str | None, location: str | None) -> Reply:
    """A reply, if it is an admin's."""
    if mark is None:
        where = f" and redirects to {location!r}" if location else ""
        hint = (
            "give --token-file or the variable APF_TOKEN" if status == 401 else "is this its address, and its admin on?"
        )
        return Reply(name, silence=f"it answers {status}{where}, but isn't apf's admin: {hint}")
    try:
        document = json.loads(content) if content else {}
    except ValueError:
        return Reply(name, silence=f"it answers {status} with what isn't JSON")
    return Reply(name, status, document if isinstance(document, dict) else {})
