"""A real Prometheus scrapes a real server, in both text formats, and answers what an operator asks."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn

from apf_middleware.fairqueuing import Reason
from apf_middleware.metrics import (
    APFCollector,
    LevelPicture,
    Occupancy,
    SchemaPicture,
    ServerPicture,
    Tally,
    compress,
    render,
)
from apf_middleware.metrics.families import FAMILIES
from tests.unit.metrics.pictures import FULL, Metrics

MS = 10**6
PATIENCE = 30.0


def program(name: str) -> str:
    """Where a program is. Without it there is nothing to test here, which may not happen unnoticed in CI."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return found


class Moving:
    """A server whose numbers move with each look: one request dispatched at once, one after 150 ms, one rejected."""

    def __init__(self) -> None:
        self.tally = Tally("work", "users")
        self.seats = Occupancy(0)
        self.looks = 0

    def read(self) -> ServerPicture:
        self.looks += 1
        now = self.looks * 200 * MS
        self.seats.set(now, self.looks % 10)
        self.tally.at_once += 1
        self.tally.after_wait += 1
        self.tally.waits.observe(150 * MS)
        self.tally.rejected[Reason.TIME_OUT] += 1
        self.tally.unserved_waits.observe(15_000 * MS)
        times = self.seats.times(now)
        level = LevelPicture("work", "queue", 10, 5, 20, 10, times, times, times, times, waiting_capacity=100)
        return ServerPicture((level,), (SchemaPicture("work", "users", self.tally),), seats=10, version="1.2.3")


class App:
    """`/metrics` in the format that is asked for; `/plain` always in the old one."""

    def __init__(self, prefix: str = "apf") -> None:
        self.moving = Moving()
        self.collector = APFCollector(self.moving.read, prefix)
        self.formats: set[str] = set()

    async def __call__(self, scope: Any, _: Any, send: Any) -> None:  # noqa: ANN401 (ASGI)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        accept = headers.get("accept", "") if scope["path"] == "/metrics" else ""
        body, content_type = render(accept, self.collector)
        self.formats.add(content_type.partition(";")[0])
        body, compressed = compress(body, headers.get("accept-encoding", ""))
        answer = [(b"content-type", content_type.encode())]
        if compressed:
            answer.append((b"content-encoding", b"gzip"))
        await send({"type": "http.response.start", "status": 200, "headers": answer})
        await send({"type": "http.response.body", "body": body})


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def until(found: Callable[[], Any], wanted: str) -> Any:  # noqa: ANN401 (whatever is found)
    """What is found, as soon as it is."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    pytest.fail(f"no {wanted} within {PATIENCE:.0f} s")


@pytest.fixture(scope="module")
def app() -> Iterator[tuple[App, int]]:
    app, port = App(), free_port()
    settings = uvicorn.Config(app, port=port, lifespan="off", ws="none", log_level="critical")
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, "server")
    yield app, port
    server.should_exit = True
    thread.join(10)


class Prometheus:
    """Its HTTP API."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def query(self, expression: str) -> dict[str, float]:
        """The value of each job."""
        status, body = self.get(f"/api/v1/query?{urlencode({'query': expression})}")
        assert status == 200, body
        rows = json.loads(body)["data"]["result"]
        return {row["metric"].get("job", ""): float(row["value"][1]) for row in rows}

    def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.get("/api/v1/targets")[1])["data"]["activeTargets"]
        return found


@pytest.fixture(scope="module")
def prometheus(app: tuple[App, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory, port = tmp_path_factory.mktemp("prometheus"), free_port()
    jobs = [
        {"job_name": name, "metrics_path": path, "static_configs": [{"targets": [f"127.0.0.1:{app[1]}"]}]}
        for name, path in (("modern", "/metrics"), ("plain", "/plain"))
    ]
    settings = {"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": jobs}
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
        until(lambda: min(served.query("count_over_time(up[1h])").values(), default=0) >= 8, "scrapes")
        yield served
    finally:
        process.terminate()
        process.wait(20)


def test_prometheus_can_read_what_it_scrapes_in_both_formats(prometheus: Prometheus, app: tuple[App, int]) -> None:
    assert prometheus.query("up") == {"modern": 1, "plain": 1}
    assert [target["lastError"] for target in prometheus.targets()] == ["", ""]
    assert app[0].formats == {"application/openmetrics-text", "text/plain"}


def test_prometheus_has_what_was_counted(prometheus: Prometheus, app: tuple[App, int]) -> None:
    seen = prometheus.query('apf_dispatched_requests_total{priority_level="work",flow_schema="users"}')

    looks = app[0].moving.looks
    assert seen.keys() == {"modern", "plain"}
    assert all(10 <= value <= 2 * looks and value % 2 == 0 for value in seen.values())
    assert prometheus.query("apf_server_seats") == {"modern": 10, "plain": 10}
    assert prometheus.query('apf_info{version="1.2.3"}') == {"modern": 1, "plain": 1}


def test_rates_and_quantiles_come_out_right(prometheus: Prometheus) -> None:
    waits = 'sum by (job, le) (rate(apf_request_wait_duration_seconds_bucket{execute="true"}[1h]))'
    rejected = prometheus.query('rate(apf_rejected_requests_total{reason="time-out"}[1h])')

    median = prometheus.query(f"histogram_quantile(0.4, {waits})")
    high = prometheus.query(f"histogram_quantile(0.99, {waits})")
    assert all(rate > 0 for rate in rejected.values())
    assert all(value == 0 for value in median.values())
    assert all(0.1 < value <= 0.2 for value in high.values())
    assert len(rejected) == len(median) == len(high) == 2


def test_parts_of_the_limit_are_averages_over_time(prometheus: Prometheus) -> None:
    name = "apf_priority_level_seat_utilization"
    average = prometheus.query(f"rate({name}_sum[1h]) / rate({name}_count[1h])")

    assert all(0.2 < value < 0.7 for value in average.values())
    assert prometheus.query(f"resets({name}_count[1h])") == {"modern": 0, "plain": 0}


def test_nothing_falls_that_is_counted(prometheus: Prometheus) -> None:
    names = json.loads(prometheus.get("/api/v1/label/__name__/values")[1])["data"]
    counted = [name for name in names if name.endswith(("_total", "_bucket", "_sum", "_count")) and "apf" in name]

    assert len(counted) > 15
    for name in counted:
        assert prometheus.query(f"max by (job) (resets({name}[1h]))") == {"modern": 0, "plain": 0}


def lint(body: bytes) -> tuple[int, str]:
    """The exit status of Prometheus' own check of metrics, and what it has to say."""
    command = [program("promtool"), "check", "metrics"]
    result = subprocess.run(command, input=body, capture_output=True, timeout=60, check=False)
    return result.returncode, result.stderr.decode()


KUBERNETES_NAMES = ("latest_s", "next_discounted_s_bounds", "next_s_bounds")
"""An s for seconds is what the lint takes these for; it is the S of the paper on fair queuing."""


@pytest.mark.parametrize("prefix", ["apf", "apiserver_flowcontrol"])
def test_prometheus_lint_finds_no_fault_but_with_names_of_kubernetes(prefix: str) -> None:
    body, _ = render("", Metrics(FULL, prefix).collector)
    _, told = lint(body)

    assert body.count(b"# TYPE") == len(FAMILIES)
    assert told.splitlines() == [
        f"{prefix}_{name} metric names should not contain abbreviated units" for name in KUBERNETES_NAMES
    ]


def test_prometheus_lint_would_find_others() -> None:
    status, told = lint(b"# TYPE apf_requests counter\napf_requests 1\n")

    assert status != 0
    assert "apf_requests" in told
