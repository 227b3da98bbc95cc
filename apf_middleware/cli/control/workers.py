"""Requests to the workers of a server: over their Unix sockets, or to the URL of the admin.

All workers are asked at once, so that all replies have come after one timeout, even if several workers hang. The reply
of a worker is a value: its answer, or the reason why there is none. `merging` merges the replies.
"""

import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar
from urllib.parse import quote, urlsplit

from apf_middleware.asgi.admin.documents import ProblemDocument, from_json
from apf_middleware.asgi.admin.protocol import MARK
from apf_middleware.cli.control.threads import in_background
from apf_middleware.config.sockets import SocketFile
from apf_middleware.exceptions import reason_of

__all__ = [
    "GIVE_CREDENTIALS",
    "OpenAnswer",
    "Reply",
    "SocketWorker",
    "UrlWorker",
    "Worker",
    "ask_all",
    "describe_failure",
    "open_answer",
    "page",
    "send",
]

_MOST_BYTES: Final = 64 * 2**20

GIVE_CREDENTIALS: Final = "give --token-file, the variable APF_TOKEN, or --header"
"""The next step for those whose credentials are missing or refused."""

DocumentT_co = TypeVar("DocumentT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Reply(Generic[DocumentT_co]):
    """The answer of a worker: a document, or the status and ``detail`` of a refusal, or why there is no answer."""

    worker: str
    status: int = 0
    document: DocumentT_co | None = None
    detail: str = ""
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
        return self.silence or self.detail or f"it answers {self.status}"


@dataclass(frozen=True, slots=True)
class _Question(Generic[DocumentT_co]):
    """A request for a document of the class ``kind``."""

    method: str
    path: str
    kind: type[DocumentT_co]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class SocketWorker:
    """The process behind a Unix socket."""

    file: SocketFile

    @property
    def name(self) -> str:
        return str(self.file.pid)

    @property
    def path(self) -> str:
        return ""

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        return _UnixConnection(os.fspath(self.file.path), timeout)


@dataclass(frozen=True, slots=True)
class UrlWorker:
    """The worker that answers at a URL. Redirects are not followed: credentials go to the named server alone."""

    url: str
    headers: Mapping[str, str]

    @property
    def name(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        # Without a port, http.client takes the end of an IPv6 address for one.
        if parts.scheme == "https":
            port = parts.port or http.client.HTTPS_PORT
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, parts.port or http.client.HTTP_PORT, timeout=timeout)


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
    workers: Sequence[Worker],
    method: str,
    path: str,
    kind: type[DocumentT_co],
    body: Mapping[str, object] | None = None,
    *,
    timeout: float,
) -> list[Reply[DocumentT_co]]:
    """Send a request for a document of the class ``kind`` to all workers, and return their replies in order."""
    question = _Question(method, path, kind, None if body is None else json.dumps(body).encode())
    deadline = time.monotonic() + timeout
    answers = [in_background(partial(_ask, question, timeout, worker)) for worker in workers]
    return [_in_time(worker, answer, deadline) for worker, answer in zip(workers, answers, strict=True)]


def _in_time(worker: Worker, answer: Future[Reply[DocumentT_co]], deadline: float) -> Reply[DocumentT_co]:
    """Return the answer if it has come by then: the timeout of a socket begins again with each byte."""
    try:
        return answer.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError as error:
        return Reply(worker.name, silence=describe_failure(error))


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """The beginning of an answer that goes on for a time."""

    response: http.client.HTTPResponse
    connection: http.client.HTTPConnection

    def close(self) -> None:
        """Close the connection."""
        self.response.close()
        self.connection.close()


def open_answer(
    worker: Worker, path: str, body: Mapping[str, object], timeout: float
) -> OpenAnswer | Reply[ProblemDocument]:
    """Post a request whose answer goes on for a time, and return that answer; or why there is none."""
    connection = worker.connect(timeout)
    try:
        response = send(connection, worker, ("POST", path, json.dumps(body).encode()))
        if response.getheader(MARK) is not None and response.status == http.client.OK:
            return OpenAnswer(response, connection)
        with response, closing(connection):
            return _reply_of(worker, response, ProblemDocument)
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        return Reply(worker.name, silence=describe_failure(error))


def _ask(question: _Question[DocumentT_co], timeout: float, worker: Worker) -> Reply[DocumentT_co]:
    connection = worker.connect(timeout)
    try:
        with send(connection, worker, (question.method, question.path, question.body)) as response:
            return _reply_of(worker, response, question.kind)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Reply(worker.name, silence=describe_failure(error))
    finally:
        connection.close()


def send(
    connection: http.client.HTTPConnection, worker: Worker, question: tuple[str, str, bytes | None]
) -> http.client.HTTPResponse:
    """Send method, path and body of a request to a worker, and return the answer before its body has come."""
    method, path, body = question
    headers = {"Accept": "application/json", "Connection": "close", **worker.headers}
    if body is not None:
        headers["Content-Type"] = "application/json"
    with suppress(BrokenPipeError, ConnectionResetError):  # a server may refuse before it has read all
        connection.request(method, worker.path + path, body, headers)
    return connection.getresponse()


def describe_failure(error: BaseException) -> str:
    """Return why a worker hasn't answered."""
    if isinstance(error, TimeoutError):
        return "it didn't answer in time; raise --timeout to wait longer"
    if isinstance(error, OSError):
        return reason_of(error)
    return f"it doesn't answer as a web server does: {type(error).__name__}: {error}"


def _reply_of(worker: Worker, response: http.client.HTTPResponse, kind: type[DocumentT_co]) -> Reply[DocumentT_co]:
    if response.getheader(MARK) is None:  # the body may never end
        silence = _describe_stranger(worker, response.status, response.getheader("location"))
        return Reply(worker.name, silence=silence)
    return _parse(worker.name, response.status, response.read(_MOST_BYTES), kind)


def _describe_stranger(worker: Worker, status: int, location: str | None) -> str:
    """Return what is wrong with an answer that isn't the admin's."""
    where = f" and redirects to {location!r}" if location else ""
    if status == http.client.SERVICE_UNAVAILABLE:
        why = "it may have too many connections, such as open pages of the console"
        return f"it answers {status}: {why}; close some, or try again"
    if status == http.client.UNAUTHORIZED:
        return f"it doesn't accept these credentials: {GIVE_CREDENTIALS}"
    check = "check the address"
    if worker.path:
        check += f"; {worker.path} was asked, and the URL may end with another admin.path. The admin is off without"
        check += " spec.admin.groups or operators in the Server document"
    return f"it answers {status}{where}, but isn't apf's admin: {check}"


def _parse(name: str, status: int, content: bytes, kind: type[DocumentT_co]) -> Reply[DocumentT_co]:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return Reply(name, silence=f"it answers {status}, but not with JSON")
    try:
        if 200 <= status < 300:
            return Reply(name, status, from_json(kind, content))
        detail = from_json(ProblemDocument, content).detail
        return Reply(name, status, detail=f"{detail.rstrip('.')}: {GIVE_CREDENTIALS}" if status == 401 else detail)
    except ValueError:
        silence = "" if status >= 300 else f"it answers {status} with an unknown document: does it run another version?"
        return Reply(name, 0 if silence else status, silence=silence)
