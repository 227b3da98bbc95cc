"""Requests to the workers of a server: over their Unix sockets, or to the URL of the admin.

All workers are asked at once, each with its own timeout, so that one that hangs delays the others no longer. A worker's
answer, or why there is none, is a value; `merging` merges the answers.
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
    """The answer of a worker: a document with its status, or why there is none."""

    worker: str
    status: int = 0
    document: dict[str, Any] = field(default_factory=dict)
    silence: str = ""

    @property
    def is_done(self) -> bool:
        """Return whether the worker has succeeded."""
        return 200 <= self.status < 300

    @property
    def is_silent(self) -> bool:
        """Return whether it is unknown what the worker did."""
        return not self.status

    @property
    def trouble(self) -> str:
        """Return why the worker has not succeeded."""
        return self.silence or str(self.document.get("detail") or f"it answers {self.status}")


@dataclass(frozen=True, slots=True)
class SocketWorker:
    """The process behind a Unix socket."""

    file: SocketFile

    @property
    def name(self) -> str:
        return str(self.file.pid)

    def ask(self, method: str, path: str, body: bytes | None, timeout: float) -> Reply:
        """Send one request."""
        connection = _UnixConnection(os.fspath(self.file.path), timeout)
        return _asked(self.name, connection, (method, path, body, {}))


@dataclass(frozen=True, slots=True)
class UrlWorker:
    """The worker that answers at a URL."""

    url: str
    headers: Mapping[str, str]

    @property
    def name(self) -> str:
        return urlsplit(self.url).netloc

    def ask(self, method: str, path: str, body: bytes | None, timeout: float) -> Reply:
        """Send one request, and follow no redirects: credentials go to the named server alone."""
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
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("apf", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def page(*steps: str) -> str:
    """Return the path of a page, with its names quoted."""
    return "/" + "/".join(quote(step, safe="") for step in steps)


def ask_all(
    workers: Sequence[Worker], method: str, path: str, document: Mapping[str, object] | None = None, *, timeout: float
) -> list[Reply]:
    """Send a request to all workers, and return their replies in order."""
    body = None if document is None else json.dumps(document).encode()
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
        with suppress(BrokenPipeError, ConnectionResetError):  # a server may refuse before it has read all
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
    """Return the reply, if it is an admin's."""
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
