"""Asking workers: by sockets and addresses, and what is made of answers that aren't an admin's."""

import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import typer

from apf_middleware.asgi.admin.documents import DeletedQueue, Worker
from apf_middleware.cli.control.outcomes import Exit
from apf_middleware.cli.control.server import Server, admin_address, find_server
from apf_middleware.cli.control.workers import Reply, SocketWorker, UrlWorker, ask_all, page
from apf_middleware.config.sockets import SocketFile

ADMIN = b"HTTP/1.1 %b\r\nx-apf-admin: 1\r\ncontent-length: %d\r\n\r\n%b"


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="apf-") as folder:
        yield Path(folder)


Workers = Iterator[tuple[SocketWorker, bytearray]]


@contextmanager
def worker(
    directory: Path, says: bytes | None, pid: int = 7, app: str = "shop", *, refuses_early: bool = False
) -> Workers:
    """Run a worker that gives this answer to every request, and return the requests; None: no answer at all."""
    path = directory / f"{app}.{pid}.sock"
    heard = bytearray()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        over = threading.Event()

        def talk() -> None:
            while not over.is_set():
                connection, _ = listener.accept()
                with connection, suppress(OSError):  # some look whether anybody is there, and go
                    if says is None:
                        over.wait(5)
                    else:
                        heard.extend(connection.recv(65536))
                        while b"}" not in heard and heard.startswith(b"POST") and not refuses_early:
                            heard.extend(connection.recv(65536))
                        connection.sendall(says)

        thread = threading.Thread(target=talk)
        thread.start()
        try:
            yield SocketWorker(SocketFile(app, pid, path)), heard
        finally:
            over.set()
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
            thread.join()


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
            "it answers 200 with what isn't JSON",
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "it answers 200, but isn't apf's admin"),
        (b"HTTP/1.1 302 Found\r\nlocation: /away\r\ncontent-length: 0\r\n\r\n", "302 and redirects to '/away'"),
        (b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n", "give --token-file or the variable APF_TOKEN"),
        (admin_says(b"not json"), "it answers 200 with what isn't JSON"),
        (admin_says(b'{"deleted": 7}'), "it answers 200 with another document: has it another version?"),
        (None, "it didn't answer in time; --timeout gives it longer"),
    ],
    ids=["ssh", "closes", "stops", "no mark", "redirect", "401", "no json", "other document", "silent"],
)
def test_answers_that_are_not_the_admins_have_a_reason(directory: Path, says: bytes | None, silence: str) -> None:
    with worker(directory, says) as (one, _):
        [reply] = ask_all([one], "GET", "/queues", DeletedQueue, timeout=0.2)

    assert reply.is_silent
    assert not reply.is_done
    assert silence in reply.trouble


def test_a_body_is_sent_as_json(directory: Path) -> None:
    with worker(directory, admin_says(DELETED)) as (one, heard):
        [reply] = ask_all([one], "POST", page("queues", "a/b", "close"), DeletedQueue, {"mode": "shed"}, timeout=60)

    assert reply == Reply("7", 200, DeletedQueue(Worker(7, "shop", "1"), "web"))
    head, _, body = bytes(heard).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /queues/a%2Fb/close HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/json" in head
    assert body == b'{"mode": "shed"}'


def test_a_refusal_before_the_whole_body_is_read(directory: Path) -> None:
    refusal = admin_says(problem(403, "You may look."), b"403 Forbidden")
    with worker(directory, refusal, refuses_early=True) as (one, _):
        replies = [
            ask_all([one], "POST", "/queues", DeletedQueue, {"name": "x" * 400_000}, timeout=60)[0] for _ in range(10)
        ]

    assert {reply.trouble for reply in replies} == {"You may look."}


def test_a_refusal_has_its_detail(directory: Path) -> None:
    with worker(directory, admin_says(problem(409, "It is Open."), b"409 Conflict")) as (one, _):
        [reply] = ask_all([one], "DELETE", "/queues/web", DeletedQueue, timeout=60)

    assert (reply.is_done, reply.is_silent, reply.trouble) == (False, False, "It is Open.")


def test_workers_are_asked_at_once_and_replies_keep_their_order(directory: Path) -> None:
    with (
        worker(directory, None, 1) as (first, _),
        worker(directory, None, 2) as (second, _),
        worker(directory, admin_says(DELETED), 3) as (third, _),
    ):
        replies = ask_all([first, second, third], "GET", "/queues", DeletedQueue, timeout=0.3)

    assert [(reply.worker, reply.is_silent) for reply in replies] == [("1", True), ("2", True), ("3", False)]


def test_an_address_gets_the_credentials_and_its_own_path() -> None:
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            connection, _ = listener.accept()
            with connection:
                heard.extend(connection.recv(65536))
                connection.sendall(admin_says(DELETED))

        thread = threading.Thread(target=talk)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/internal/apf"
        [reply] = ask_all([UrlWorker(url, {"Authorization": "Bearer x"})], "GET", "/queues", DeletedQueue, timeout=60)
        thread.join()

    assert reply.is_done
    assert heard.startswith(b"GET /internal/apf/queues HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer x\r\n" in heard


def test_a_refused_connection_is_silence() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/x"
        [reply] = ask_all([UrlWorker(url, {})], "GET", "/q", DeletedQueue, timeout=60)

    assert reply.trouble == "connection refused"


# Which server


def found(directory: Path | None, app: str | None = None, url: str | None = None, token: Path | None = None) -> Server:
    return find_server(directory, app, url, token, 5.0)


def test_the_only_server_in_a_directory_needs_no_name(directory: Path) -> None:
    with worker(directory, b"", 1), worker(directory, b"", 2):
        server = found(directory)
        assert (server.name, [one.name for one in server.workers]) == ("shop", ["1", "2"])
        with worker(directory, b"", 3, "stock"):
            with pytest.raises(typer.BadParameter, match="several servers have sockets there: shop, stock"):
                found(directory)
            assert [one.name for one in found(directory, "stock").workers] == ["3"]
        with worker(directory, b"", 4):
            assert [one.name for one in server.renewed().workers] == ["1", "2", "4"], "and the dead one isn't asked"


def test_sockets_of_dead_workers_reach_no_server(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with worker(directory, b""):
        pass
    with pytest.raises(typer.Exit) as ended:
        found(directory)

    assert ended.value.exit_code == Exit.UNREACHED
    assert "1 that have died left theirs" in capsys.readouterr().err
    directory.rename(f"{directory}-gone")
    try:
        assert Server("shop", (), 5.0, directory).renewed().workers == ()
    finally:
        Path(f"{directory}-gone").rename(directory)


def test_a_directory_that_others_can_write_to_is_refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory.chmod(0o777)
    with pytest.raises(typer.Exit), worker(directory, b""):
        found(directory)

    assert "nobody else may be able to write" in capsys.readouterr().err


def test_a_command_needs_to_know_which_server() -> None:
    with pytest.raises(typer.BadParameter, match="which server"):
        found(None)


def test_a_token_comes_from_a_file_or_the_environment(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = directory / "token"
    file.write_text("from-file\n")
    monkeypatch.setenv("APF_TOKEN", "from-environment")
    url, address = "http://shop:8000", admin_address("http://shop:8000")
    known = {"Authorization": "Bearer from-environment"}
    better = {"Authorization": "Bearer from-file"}

    assert found(None, url=url).workers == (UrlWorker(address, known),)
    assert found(None, url=url, token=file).workers == (UrlWorker(address, better),)
    monkeypatch.delenv("APF_TOKEN")
    assert found(None, url=url).workers == (UrlWorker(address, {}),)
    file.write_text("two\nlines")
    with pytest.raises(typer.BadParameter, match="printable ASCII"):
        found(None, url=url, token=file)
    assert os.environ.get("APF_TOKEN") is None
