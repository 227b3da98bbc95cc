"""A real Prometheus scrapes a real server, in both text formats, and answers typical queries."""

import asyncio
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware import APFMiddleware
from apf_middleware import __version__ as version
from apf_middleware.metrics import render
from apf_middleware.metrics.families import FAMILIES
from tests.e2e.playground import bare
from tests.e2e.prometheus import Prometheus, program, scraping, until
from tests.support.readings import FULL, Metrics
from tests.support.servers import Server, serve

CONFIG = Path(__file__).parent / "data" / "prometheus.yaml"
ROUNDS = 6


def served() -> ASGIApp:
    """Run a uvicorn with `/metrics` in the requested format, and `/plain` without negotiation."""
    app = APFMiddleware(bare, CONFIG)

    async def with_plain(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/plain":
            headers = [one for one in scope["headers"] if one[0] != b"accept"]
            scope = {**scope, "path": "/metrics", "raw_path": b"/metrics", "headers": headers}
        await app(scope, receive, send)

    return with_plain


async def load(url: str) -> Counter[int]:
    """Send requests: in each round one is dispatched at once, one after 130 ms, and one is rejected after 190 ms."""
    statuses: Counter[int] = Counter()
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        for _ in range(ROUNDS):
            first = asyncio.create_task(client.get("/hold?ms=150"))
            await asyncio.sleep(0.02)
            others = await asyncio.gather(client.get("/hold?ms=200"), client.get("/hold?ms=200"))
            statuses.update(answer.status_code for answer in (await first, *others))
    return statuses


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    program("prometheus")
    with serve("tests.e2e.test_prometheus:served", "--factory", ready="/metrics") as running:
        yield running


@pytest.fixture(scope="module")
def counted() -> Counter[int]:
    """Return the statuses of all answers to the load."""
    return Counter()


@pytest.fixture(scope="module")
def prometheus(server: Server, counted: Counter[int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    jobs = [
        {"job_name": name, "metrics_path": path, "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}
        for name, path in (("modern", "/metrics"), ("plain", "/plain"))
    ]
    settings = {"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"}, "scrape_configs": jobs}
    with scraping(settings, tmp_path_factory.mktemp("prometheus")) as ready:
        until(lambda: min(ready.query("count_over_time(up[1h])").values(), default=0) >= 2, "scrapes before the load")
        counted.update(asyncio.run(load(server.url)))
        until(lambda: set(ready.query(DISPATCHED).values()) == {counted[200]}, "scrapes after the load")
        until(lambda: set(ready.query(TIMED_OUT).values()) == {counted[429]}, "scrapes after the last rejection")
        yield ready


DISPATCHED = 'apf_dispatched_requests_total{priority_level="work",flow_schema="users"}'
TIMED_OUT = 'apf_rejected_requests_total{flow_schema="users",reason="time-out"}'


def test_prometheus_can_read_what_it_scrapes_in_both_formats(prometheus: Prometheus, server: Server) -> None:
    accepted = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}
    formats = [
        httpx.get(server.url + path, headers=accepted, timeout=60, trust_env=False)
        .headers["content-type"]
        .partition(";")[0]
        for path in ("/metrics", "/plain")
    ]

    until(lambda: prometheus.query("up") == {"modern": 1, "plain": 1}, "scrapes in time")
    until(lambda: [target["lastError"] for target in prometheus.targets()] == ["", ""], "scrapes without errors")
    assert formats == ["application/openmetrics-text", "text/plain"]


def test_prometheus_has_what_was_counted(prometheus: Prometheus, counted: Counter[int]) -> None:
    assert counted.keys() == {200, 429}
    assert counted.total() == 3 * ROUNDS
    assert prometheus.query(DISPATCHED) == {"modern": counted[200], "plain": counted[200]}
    assert prometheus.query(TIMED_OUT) == {"modern": counted[429], "plain": counted[429]}
    assert prometheus.query("apf_server_seats") == {"modern": 1, "plain": 1}
    assert prometheus.query(f'apf_info{{version="{version}"}}') == {"modern": 1, "plain": 1}


def test_rates_and_quantiles_come_out_right(prometheus: Prometheus) -> None:
    waits = 'sum by (job, le) (apf_request_wait_duration_seconds_bucket{priority_level="work",execute="true"})'
    rejected = prometheus.query('rate(apf_rejected_requests_total{flow_schema="users",reason="time-out"}[1h])')

    median = prometheus.query(f"histogram_quantile(0.4, {waits})")
    high = prometheus.query(f"histogram_quantile(0.99, {waits})")
    assert all(rate > 0 for rate in rejected.values())
    assert all(value == 0 for value in median.values())
    assert all(0.1 < value <= 0.2 for value in high.values())
    assert len(rejected) == len(median) == len(high) == 2


def test_parts_of_the_limit_are_averages_over_time(prometheus: Prometheus) -> None:
    name = "apf_priority_level_seat_utilization"
    average = prometheus.query(f'rate({name}_sum{{priority_level="work"}}[1h]) / rate({name}_count[1h])')

    assert len(average) == 2
    assert all(0.01 < value < 0.99 for value in average.values())
    assert prometheus.query(f'resets({name}_count{{priority_level="work"}}[1h])') == {"modern": 0, "plain": 0}


def test_nothing_falls_that_is_counted(prometheus: Prometheus) -> None:
    names = prometheus.ask("label/__name__/values")
    summed = [name for name in names if name.endswith(("_total", "_bucket", "_sum", "_count")) and "apf" in name]

    assert len(summed) > 15
    for name in summed:
        assert prometheus.query(f"max by (job) (resets({name}[1h]))") == {"modern": 0, "plain": 0}


def lint(body: bytes) -> tuple[int, str]:
    """Return the exit status and the output of Prometheus' own check of metrics."""
    command = [program("promtool"), "check", "metrics"]
    result = subprocess.run(command, input=body, capture_output=True, timeout=60, check=False)
    return result.returncode, result.stderr.decode()


KUBERNETES_NAMES = ("latest_s", "next_discounted_s_bounds", "next_s_bounds")
"""An s for seconds is what the lint takes these for; it is the S of the paper on fair queuing."""


@pytest.mark.parametrize("prefix", ["apf", "apiserver_flowcontrol"])
def test_prometheus_lint_finds_no_fault_but_with_names_of_kubernetes(prefix: str) -> None:
    body, _ = render("", Metrics(FULL, prefix).collector)
    _, output = lint(body)

    assert body.count(b"# TYPE") == len(FAMILIES)
    assert output.splitlines() == [
        f"{prefix}_{name} metric names should not contain abbreviated units" for name in KUBERNETES_NAMES
    ]


def test_prometheus_lint_would_find_others() -> None:
    status, output = lint(b"# TYPE apf_requests counter\napf_requests 1\n")

    assert status != 0
    assert "apf_requests" in output
