"""The examples match their pages: started by the documented commands, they give the documented output.

Each page is run from a copy, so that what an example writes (keys) isn't left in the repository. Its servers are
started by the page's own commands, on ports that are free; its other commands run in a shell, and what they print is
compared with what the page shows, apart from what differs each time.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from apf_middleware.config import read
from examples.behind_proxy.proxy import rewritten
from tests.support import databases
from tests.support.prerequisites import require_redis
from tests.support.servers import free_port

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGES = sorted(EXAMPLES.glob("*/README.md"))
CONFIGS = sorted(path for path in EXAMPLES.rglob("*.yaml") if not {"config", "scenarios"} & set(path.parts))
END = "\x1e"
VOLATILE = (r"(?m)^(date): .*$", r'"(retry_after|waited)": [\d.]+')


class Shown(NamedTuple):
    """A command on a page, and its documented output."""

    command: str
    output: str

    @property
    def is_app(self) -> bool:
        modules = ("python -m examples.workers", "python -m examples.three_services")
        return self.command.startswith("uvicorn ") or self.command in modules

    @property
    def is_server(self) -> bool:
        return self.is_app or self.command.endswith(".proxy")


def shown_on(page: Path) -> list[Shown]:
    found = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for part in re.split(r"(?m)^\$ ", block)[1:]:
            command, _, output = part.partition("\n")
            found.append(Shown(command, output))
    return found


def stable_lines(output: str) -> list[str]:
    """Return the lines that are the same in each run, without the alignment of columns."""
    for pattern in VOLATILE:
        output = re.sub(pattern, r"\1", output)
    return [" ".join(line.split()) for line in output.strip().splitlines()]


def require_curl() -> None:
    """Skip the tests without curl, but fail in CI."""
    if shutil.which("curl") is None:
        if os.environ.get("CI"):
            pytest.fail("curl is not installed")
        pytest.skip("curl is not installed: apt-get install curl")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a copy of the examples and nothing else of the repository."""
    ignored = shutil.ignore_patterns("__pycache__", "keys")
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=ignored)
    return tmp_path


class Stage:
    """The servers of one page. ``app`` and ``proxy`` are the ports that stand for 8000 and 8080."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.app, self.proxy = free_port(), free_port()
        binaries = Path(sys.executable).parent
        path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
        self.environment = {"PATH": path, "LC_ALL": "C.UTF-8", "UVICORN_PORT": str(self.app)}
        if "PYTHONPATH" in os.environ:  # for the package, if it isn't installed
            self.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]

    @contextlib.contextmanager
    def server(self, command: str) -> Iterator[Path]:
        """Run the app by this command, and return its output."""
        port, words, output = self.app, shlex.split(command), self.place / "output"
        if command.endswith(".proxy"):
            port, output = self.proxy, self.place / "proxy-output"
            words += ["--port", str(self.proxy), "--app-port", str(self.app)]
        program = shutil.which(words[0], path=self.environment["PATH"])
        assert program is not None, words[0]
        with output.open("wb") as written:
            process = subprocess.Popen(
                [program, *words[1:]],
                cwd=self.place,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
            )
        try:
            self.wait(process, port, output)
            yield output
        finally:
            process.terminate()
            try:
                status = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert status in {0, -signal.SIGTERM}, output.read_text()  # uvicorn ends by the signal that it was sent

    def wait(self, process: subprocess.Popen[bytes], port: int, output: Path) -> None:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.02)

    def run(self, commands: list[str]) -> list[str]:
        """Run all commands in one shell, and return the output of each."""
        script = "".join(f"{command}\nprintf '{END}'\n" for command in commands)
        script = script.replace(":8000/", f":{self.app}/").replace(":8080/", f":{self.proxy}/")
        done = subprocess.run(
            ["bash", "-c", script],  # noqa: S607 - whichever there is
            cwd=self.place,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.stderr == ""
        return done.stdout.split(END)[:-1]

    def repeat(self, one: Shown, output: str) -> str:
        """Return the output of a command, of a later run if it asks for metrics that a busy machine shows late."""
        deadline = time.monotonic() + 30
        while (
            "/metrics" in one.command
            and stable_lines(output) != stable_lines(one.output)
            and time.monotonic() < deadline
        ):
            time.sleep(0.2)
            [output] = self.run([one.command])
        return output


def test_there_are_pages_to_be_tested() -> None:
    ours = {"behind_proxy", "demo", "django_app", "fastapi_tenants", "litestar_app", "starlette_minimal", "workers"}
    assert {page.parent.name for page in PAGES} >= ours
    for page in PAGES:
        shown = shown_on(page)
        assert sum(one.is_app for one in shown) == 1
        assert sum("curl" in one.command for one in shown) >= 3


@pytest.mark.timeout(900)  # one of them waits for an outcome, however busy the machine is
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_an_example_answers_what_its_page_says(page: Path, place: Path) -> None:
    require_curl()
    shown = shown_on(page)
    stage = Stage(place)
    with contextlib.ExitStack() as servers:
        if "REDIS_URL" in page.read_text():
            require_redis()
            stage.environment["REDIS_URL"] = servers.enter_context(databases.redis()).url
        outputs = [servers.enter_context(stage.server(one.command)) for one in shown if one.is_server]
        asked = [one for one in shown if not one.is_server]
        printed = stage.run([one.command for one in asked])
        for one, output in zip(asked, printed, strict=True):
            assert stable_lines(stage.repeat(one, output)) == stable_lines(one.output), one.command
    for written in outputs:
        assert not re.search("Traceback|ERROR|WARNING", text := written.read_text()), text


def test_services_that_cannot_start_end_with_an_error(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        stage = Stage(place)
        environment = stage.environment | {"UVICORN_PORT": str(taken.getsockname()[1])}
        command = [sys.executable, "-m", "examples.three_services"]
        ended = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    assert ended.returncode > 0, ended.stderr
    assert "address already in use" in ended.stderr


def test_the_signing_key_is_created_once_and_readable_by_its_owner_only(place: Path) -> None:
    words = ["-m", "examples.fastapi_tenants.issue", "bob", "--tenant", "acme", "--plan", "free"]
    private = place / "examples" / "fastapi_tenants" / "keys" / "private.pem"
    keys = []
    for _ in range(2):
        done = subprocess.run([sys.executable, *words], cwd=place, capture_output=True, text=True, check=True)
        assert done.stdout.count(".") == 2
        keys.append(private.read_bytes())
    assert keys[0] == keys[1]
    assert private.stat().st_mode & 0o077 == 0
    assert "keys/" in (EXAMPLES / "fastapi_tenants" / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.parent.name)
def test_nothing_is_wrong_or_odd_about_a_configuration(path: Path) -> None:
    assert [str(problem) for problem in read([path]).problems] == []


def test_what_the_list_of_examples_checks_has_no_problems() -> None:
    [checked] = re.findall(r"`apf check (\S+)`", (EXAMPLES / "README.md").read_text())

    assert [str(problem) for problem in read([EXAMPLES.parent / checked]).problems] == []


@pytest.mark.parametrize("page", [EXAMPLES / "README.md", *PAGES], ids=lambda page: page.parent.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", page.read_text()) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_list_of_examples_has_all_of_them_with_their_commands() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    folders = {path.parent.name for path in EXAMPLES.glob("*/__init__.py")}
    assert folders == set(re.findall(r"\| \[(\w+)\]", listed)) - {"config", "scenarios"}
    for page in PAGES:
        [command] = [one.command for one in shown_on(page) if one.is_app]
        assert f"`{command}`" in listed or page.parent.name == "demo"


HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n"


@pytest.mark.parametrize(
    "forged",
    [b"X-Remote-User: root", b"x-remote-group: staff", b"X-REMOTE-USER : root", b"X-Remote-Extra-Scopes: all"],
)
def test_the_proxy_removes_headers_that_only_it_may_set(forged: bytes) -> None:
    seen = rewritten(HEAD % forged, "192.0.2.7")
    assert b"root" not in seen
    assert b"remote" not in seen.lower()
    assert seen.endswith(b"\r\nX-Forwarded-For: 192.0.2.7\r\nConnection: close\r\n\r\n")


def test_the_header_of_the_proxy_comes_last() -> None:
    seen = rewritten(HEAD % b"X-Forwarded-For: 203.0.113.9", "192.0.2.7")
    assert re.findall(rb"X-Forwarded-For: (\S+)", seen) == [b"203.0.113.9", b"192.0.2.7"]


def test_the_proxy_authenticates_known_users() -> None:
    assert b"X-Remote-User: alice\r\n" in rewritten(HEAD % b"Authorization: Basic YWxpY2U6d29uZGVybGFuZA==", "::1")
    assert b"X-Remote" not in rewritten(HEAD % b"Authorization: Basic YWxpY2U6d3Jvbmc=", "::1")


@pytest.mark.parametrize("smuggled", [b"A: b\nX-Remote-User: root", b"A: b\rX-Remote-User: root", b"A: b\n\nGET / "])
def test_the_proxy_refuses_ambiguous_heads(smuggled: bytes) -> None:
    with pytest.raises(ValueError, match="a line must end with CR and LF"):
        rewritten(HEAD % smuggled, "192.0.2.7")
