"""A server whose configuration is broken doesn't start, whichever server it is; without lifespan it answers 503."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.servers import ROOT, free_port, serve

pytestmark = pytest.mark.timeout(240)

BROKEN = """
apiVersion: apf/v1
kind: Server
spec: {seats: -3, colour: hush-hush}
"""
UVICORN = ("uvicorn", "--host", "127.0.0.1", "--port", "{port}")
SERVERS: dict[str, tuple[str, ...]] = {
    "uvicorn-auto": (*UVICORN, "--lifespan", "auto"),
    "uvicorn-on": (*UVICORN, "--lifespan", "on"),
    "uvicorn-2-workers": (*UVICORN, "--workers", "2"),
    "hypercorn": ("hypercorn", "--bind", "127.0.0.1:{port}"),
    "hypercorn-trio": ("hypercorn", "--worker-class", "trio", "--bind", "127.0.0.1:{port}"),
    "granian": ("granian", "--interface", "asgi", "--host", "127.0.0.1", "--port", "{port}"),
}
FAILS = {"uvicorn-auto", "uvicorn-on", "granian"}
"""Those that end with an error. Where uvicorn or hypercorn start workers, they exit with 0 though no worker starts."""
WAYS = ("added", "wrapped")
MISSING = "/nonexistent/apf.yaml"


def run(server: str, way: str, config: str, argument: str = "config") -> subprocess.CompletedProcess[str]:
    """Run a server until it ends, and return its exit code and its output; raise TimeoutExpired if it doesn't end."""
    command = [part.format(port=free_port()) for part in SERVERS[server]]
    environment = {**os.environ, "APF_TEST_CONFIG": config, "APF_TEST_ARGUMENT": argument}
    return subprocess.run(
        [sys.executable, "-m", *command, f"tests.e2e.unready:{way}"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def broken(tmp_path: Path) -> str:
    path = tmp_path / "apf.yaml"
    path.write_text(BROKEN)
    return str(path)


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_with_a_broken_configuration_ends_with_the_list_of_problems(server: str, broken: str) -> None:
    """Both ways on each kind of server; how a server is started makes no difference between them."""
    ways = WAYS if server in {"uvicorn-auto", "hypercorn", "granian"} else WAYS[:1]
    with ThreadPoolExecutor(2) as threads:
        for ended in threads.map(lambda way: run(server, way, broken), ways):
            assert "spec.seats is -3, but it must be at least 1" in ended.stdout
            assert "spec.colour is 'hush-hush', but there is no such key" in ended.stdout
            assert ended.returncode != 0 or server not in FAILS


def test_a_missing_file_and_a_misspelt_argument_end_it_too() -> None:
    with ThreadPoolExecutor(2) as threads:
        missing = threads.submit(run, "uvicorn-auto", "added", MISSING)
        misspelt = threads.submit(run, "uvicorn-auto", "added", MISSING, "confg")

    assert f"{MISSING}: error: it must be readable: there is no such file" in missing.result().stdout
    assert "got an unexpected keyword argument 'confg'. Its arguments are app, config" in misspelt.result().stdout
    assert 0 not in (missing.result().returncode, misspelt.result().returncode)


@pytest.mark.parametrize("way", WAYS)
def test_without_lifespan_responses_reveal_nothing_about_the_error(way: str, broken: str) -> None:
    environment = {"APF_TEST_CONFIG": broken}
    with serve(f"tests.e2e.unready:{way}", "--lifespan", "off", environment=environment) as server:
        answers = [httpx.get(server.url, timeout=60, trust_env=False) for _ in range(3)]
        written = server.output()

    assert {answer.status_code for answer in answers} == {503}
    assert {answer.headers["content-type"] for answer in answers} == {"text/plain; charset=utf-8"}
    assert {answer.text for answer in answers} == {
        "This server isn't set up and serves no requests for now. Its log says why.\n"
    }
    assert written.count("apf.not-set-up") == 1
    assert "spec.seats is -3" in written
