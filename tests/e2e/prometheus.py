"""A real Prometheus as a process, and its HTTP API. Debian's package has it: apt-get install prometheus."""

import http.client
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import pytest

from tests.support.servers import free_port

__all__ = ["Prometheus", "program", "scraping", "until"]

PATIENCE = 90.0  # seconds, for a machine that is busy with something else too

T = TypeVar("T")


def program(name: str) -> str:
    """Where a program is. Without it there is nothing to test, which may not happen unnoticed in CI."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return found


def until(find: Callable[[], T], wanted: str) -> T:
    """Return the result of ``find`` as soon as there is one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = find()
        if found:
            return found
        time.sleep(0.05)
    pytest.fail(f"no {wanted} within {PATIENCE:.0f} s")


class Prometheus:
    """Its HTTP API."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def ask(self, path: str, **arguments: str | float) -> Any:  # noqa: ANN401 (JSON)
        """Return the data of an answer."""
        status, body = self.get(f"/api/v1/{path}?{urlencode(arguments)}")
        assert status == 200, body
        return json.loads(body)["data"]

    def query(self, expression: str) -> dict[str, float]:
        """Return the current value of each job."""
        rows = self.ask("query", query=expression)["result"]
        return {row["metric"].get("job", ""): float(row["value"][1]) for row in rows}

    def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("targets")["activeTargets"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]


@contextmanager
def scraping(settings: Mapping[str, object], directory: Path) -> Iterator[Prometheus]:
    """Run a Prometheus with these settings, ready; its database and log are in ``directory``."""
    port = free_port()
    (directory / "prometheus.yml").write_text(json.dumps(settings))  # what is JSON is YAML
    command = [
        program("prometheus"),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    served = Prometheus(port)
    try:
        until(lambda: served.get("/-/ready")[0] == 200 or process.poll() is not None, "Prometheus")
        assert process.poll() is None, (directory / "log").read_text()
        yield served
    finally:
        process.terminate()
        process.wait(20)
