"""The command ``apf console``: what it prints, and how it ends."""

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from apf_middleware.asgi.admin.documents import ModeDocument
from apf_middleware.cli.control.local_console import LocalConsole
from apf_middleware.cli.control.server import Server
from apf_middleware.cli.control.workers import Reply
from tests.support.command_line import Outcome, run_apf
from tests.support.servers import free_port
from tests.support.worker_replies import WORKER, refuses, silent


def console(*arguments: str) -> Outcome:
    return run_apf("console", *arguments, "--server", "http://127.0.0.1:1")


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[LocalConsole]:
    """Let one worker answer, and the console run until Ctrl-C; return the consoles that ran."""
    ran: list[LocalConsole] = []

    def ask(_server: Server, *question: object) -> Sequence[Reply[Any]]:
        if question[1] == "/mode":
            return [Reply("1", 200, ModeDocument(WORKER, "on", {}))]
        return [silent("1", "it answers 308, but not with JSON")]

    def run(local: LocalConsole) -> None:
        ran.append(local)
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "ask", ask)
    monkeypatch.setattr(LocalConsole, "run", run)
    return ran


def test_the_address_is_printed_and_ctrl_c_ends_well(running: list[LocalConsole]) -> None:
    result = console()

    assert (result.returncode, len(running)) == (0, 1)
    assert result.stdout.startswith(f"Open http://127.0.0.1:{running[0].port}/open/")
    assert len(result.stdout.splitlines()) == 1


def test_the_browser_is_opened_if_asked(running: list[LocalConsole], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Path, str, int]] = []

    def note(url: str) -> None:
        file = Path(urlsplit(url).path)
        opened.append((file, file.read_text(), file.parent.stat().st_mode & 0o777))

    monkeypatch.setattr(webbrowser, "open", note)

    assert console().returncode == 0
    assert opened == []
    result = console("--open")
    [(file, content, mode)] = opened

    assert (result.returncode, len(running), mode) == (0, 2, 0o700)
    assert f"url={result.stdout.split()[1]}" in content  # and not in the arguments of the browser, which all users see
    assert not file.exists()


def test_a_port_may_be_chosen(running: list[LocalConsole]) -> None:
    port = free_port()

    assert f"http://127.0.0.1:{port}/open/" in console("--port", str(port)).stdout
    assert running[0].port == port


def test_a_port_that_is_taken_is_named(running: list[LocalConsole]) -> None:
    taken = LocalConsole(list)
    result = console("--port", str(taken.port))
    taken.close()

    assert (result.returncode, running) == (1, [])
    assert f"port {taken.port} can't be used" in result.stderr


def test_a_server_without_a_console_gets_no_address(
    running: list[LocalConsole], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Server.ask

    def ask(server: Server, method: str, path: str, kind: type[Any]) -> Sequence[Reply[Any]]:
        return [refuses("1", 404, "no such page")] if path == "/console" else known(server, method, path, kind)

    monkeypatch.setattr(Server, "ask", ask)
    result = console()

    assert (result.returncode, result.stdout, running) == (1, "", [])
    assert "http://127.0.0.1:1 has no console: set spec.admin.console of its Server document to true" in result.stderr


def test_without_a_server_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "ask", lambda *_: [silent("1")])

    assert console().returncode != 0
