"""Requests to workers by sockets and addresses, and answers that aren't the admin's."""

import json
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from apf_middleware.asgi.admin.documents import DeletedQueue, Worker
from apf_middleware.cli.control.workers import Reply, UrlWorker, ask_all, page
from tests.support.socket_workers import socket_worker

ADMIN = b"HTTP/1.1 %b\r\nx-apf-admin: 1\r\ncontent-length: %d\r\n\r\n%b"
DELETED = b'{"worker": {"pid": 7, "app": "shop", "version": "1"}, "deleted": "web", "of a later version": 1}'


def problem(status: int, detail: str) -> bytes:
    document = {"type": "about:blank", "title": "No", "status": status, "detail": detail}
    return json.dumps(document).encode()


def admin_says(document: bytes, status: bytes = b"200 OK") -> bytes:
    return ADMIN % (status, len(document), document)


@pytest.mark.parametrize(
    ("says", "silence"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it doesn't answer as a web server does"),
        (b"", "closed connection without response"),
        (
            b"HTTP/1.1 200 OK\r\nx-apf-admin: 1\r\ncontent-length: 99\r\n\r\nshort",
            "it answers 200, but not with JSON",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "it answers 200, but isn't apf's admin"),
        (b"HTTP/1.1 302 Found\r\nlocation: /away\r\ncontent-length: 0\r\n\r\n", "302 and redirects to '/away'"),
        (b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n", "give --token-file, the variable APF_TOKEN, or --header"),
        (b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", "too many connections, such as open pages of the console"),
        (admin_says(b"not json"), "it answers 200, but not with JSON"),
        (admin_says(b"[" * 100_000), "it answers 200, but not with JSON"),
        (admin_says(b'{"deleted": 7}'), "it answers 200 with an unknown document: does it run another version?"),
        (None, "it didn't answer in time; raise --timeout to wait longer"),
    ],
    ids=["ssh", "closes", "stops", "no mark", "redirect", "401", "503", "no json", "deep", "other document", "silent"],
)
def test_answers_that_are_not_the_admins_have_a_reason(directory: Path, says: bytes | None, silence: str) -> None:
    with socket_worker(directory, says) as (one, _):
        [reply] = ask_all([one], "GET", "/queues", DeletedQueue, timeout=0.2 if says is None else 60)

    assert reply.is_silent
    assert not reply.is_done
    assert silence in reply.trouble


def test_a_body_is_sent_as_json(directory: Path) -> None:
    with socket_worker(directory, admin_says(DELETED)) as (one, received):
        [reply] = ask_all([one], "POST", page("queues", "a/b", "close"), DeletedQueue, {"mode": "shed"}, timeout=60)

    assert reply == Reply("7", 200, DeletedQueue(Worker(7, "shop", "1"), "web"))
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /queues/a%2Fb/close HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/json" in head
    assert body == b'{"mode": "shed"}'


def test_a_refusal_before_the_whole_body_is_read(directory: Path) -> None:
    refusal = admin_says(problem(403, "You may look."), b"403 Forbidden")
    with socket_worker(directory, refusal, refuses_early=True) as (one, _):
        replies = [
            ask_all([one], "POST", "/queues", DeletedQueue, {"name": "x" * 400_000}, timeout=60)[0] for _ in range(10)
        ]

    assert {reply.trouble for reply in replies} == {"You may look."}


def test_a_refusal_has_its_detail(directory: Path) -> None:
    with socket_worker(directory, admin_says(problem(409, "It is Open."), b"409 Conflict")) as (one, _):
        [reply] = ask_all([one], "DELETE", "/queues/web", DeletedQueue, timeout=60)

    assert (reply.is_done, reply.is_silent, reply.trouble) == (False, False, "It is Open.")


def test_workers_are_asked_at_once_and_replies_keep_their_order(directory: Path) -> None:
    with (
        socket_worker(directory, None, 1) as (first, _),
        socket_worker(directory, None, 2) as (second, _),
        socket_worker(directory, admin_says(DELETED), 3) as (third, _),
    ):
        replies = ask_all([first, second, third], "GET", "/queues", DeletedQueue, timeout=2)

    assert [(reply.worker, reply.is_silent) for reply in replies] == [("1", True), ("2", True), ("3", False)]


def ask_address(answer: bytes) -> tuple[Reply[DeletedQueue], bytes]:
    """Return the reply of a server that gives this answer, and what the server has received."""
    received = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            connection, _ = listener.accept()
            with connection:
                received.extend(connection.recv(65536))
                connection.sendall(answer)

        thread = threading.Thread(target=talk)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/internal/apf"
        [reply] = ask_all([UrlWorker(url, {"Authorization": "Bearer x"})], "GET", "/queues", DeletedQueue, timeout=60)
        thread.join()
    return reply, bytes(received)


def test_an_address_gets_the_credentials_and_its_own_path() -> None:
    reply, received = ask_address(admin_says(DELETED))

    assert reply.is_done
    assert received.startswith(b"GET /internal/apf/queues HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer x\r\n" in received


def test_another_path_is_suggested_for_an_address_without_the_admin() -> None:
    reply, _ = ask_address(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")

    hint = "check the address; /internal/apf was asked, and the URL may end with another admin.path"
    assert reply.trouble.startswith(f"it answers 404, but isn't apf's admin: {hint}")
    assert reply.trouble.endswith("The admin is off without spec.admin.groups or operators in the Server document")


def test_the_body_of_another_server_may_never_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n")
                while connection.recv(65536):  # until the client goes
                    pass

        thread = threading.Thread(target=talk)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        [reply] = ask_all([UrlWorker(url, {})], "GET", "/q", DeletedQueue, timeout=20)
        thread.join()

    assert reply.trouble.startswith("it answers 200, but isn't apf's admin")


def test_the_timeout_is_that_of_the_whole_answer() -> None:
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nx-apf-admin: 1\r\ncontent-length: 100000\r\n\r\n")
                while not is_over.wait(0.05):
                    connection.sendall(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        [reply] = ask_all([UrlWorker(url, {})], "GET", "/q", DeletedQueue, timeout=0.5)
        is_over.set()
        thread.join()

    assert reply.trouble == "it didn't answer in time; raise --timeout to wait longer"


def test_ctrl_c_does_not_wait_for_workers_that_hang(directory: Path) -> None:
    command = [sys.executable, "-m", "apf_middleware", "switch", "--runtime-dir", str(directory), "--timeout", "600"]
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for number, listener in enumerate(listeners, 1):
            listener.bind(str(directory / f"shop.{number}.sock"))
            listener.listen()
        heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background ignores it
        process = stack.enter_context(subprocess.Popen(command, preexec_fn=heed))  # noqa: PLW1509
        stack.callback(process.kill)
        for listener in listeners:
            # Before it asks, the command only looks whether the worker listens.
            while not stack.enter_context(listener.accept()[0]).recv(65536):
                pass
        process.send_signal(signal.SIGINT)

        assert process.wait(60) == 130


def test_a_refused_connection_is_silence() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/x"
        [reply] = ask_all([UrlWorker(url, {})], "GET", "/q", DeletedQueue, timeout=60)

    assert reply.trouble == "connection refused"
