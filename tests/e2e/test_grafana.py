"""The dashboard and the rules of `grafana/`, with a real Prometheus that has scraped real servers under load.

Three servers: two of one job with levels that lend at each dispatch and periodically, and one whose metrics have
Kubernetes' prefix. Every query that a panel asks must have an answer.

The load causes each event: it holds seats until the server's own metrics show the expected value, and starts again. It
continues until Prometheus has scraped everything, however long that takes on a busy machine.
"""

import asyncio
import contextlib
import math
import os
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from websockets.asyncio.client import connect

from grafana.build import HERE, PREFIX, RULES, main
from tests.e2e.dashboards import BOARDS, KUBERNETES, panels, read_rules
from tests.e2e.drawing import draw
from tests.e2e.prometheus import Prometheus, program, scraping, until
from tests.support.servers import Server, serve

CONFIG = Path(__file__).parent / "data" / "dashboard.yaml"
PATIENCE = 300.0  # seconds until Prometheus must have seen everything; without other load it takes about 12
SPAN = "15s"  # what $__rate_interval stands for
ELEPHANTS = 12  # more than there are seats
BRONZE, SILVER = 'priority_level="bronze"', 'priority_level="silver"'
WAITS = f"{PREFIX}_request_wait_duration_seconds"
LEVELS = {"gold", "silver", "bronze", "jail", "exempt", "catch-all"}

pytestmark = pytest.mark.timeout(600)


# The load


@dataclass(frozen=True)
class Callers:
    """All clients of one server, which send requests until the load is ``over``."""

    server: Server
    prefix: str
    client: httpx.AsyncClient
    over: asyncio.Event
    waiting: list[asyncio.Future[Mapping[str, str]]] = field(default_factory=list)

    async def get(self, path: str, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await self.client.get(self.server.url + path, headers=named)).text

    async def look(self) -> None:
        """Read the server's metrics periodically, for all tasks that wait for them."""
        while True:
            waiting, self.waiting[:] = list(self.waiting), []
            lines = (await self.get("/metrics")).splitlines()
            metrics = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            for one in waiting:
                if not one.done():
                    one.set_result(metrics)
            await asyncio.sleep(0.1)

    async def total(self, name: str, *labels: str) -> float:
        """Return the sum of the series of a name with labels like ``name="value"``, as of the next scrape."""
        self.waiting.append(asyncio.get_running_loop().create_future())
        metrics, series = await self.waiting[-1], f"{self.prefix}_{name}{{"
        return sum(
            float(value)
            for key, value in metrics.items()
            if key.startswith(series) and all(label in key for label in labels)
        )

    async def until(self, least: float, name: str, *labels: str) -> None:
        """Wait until the sum in the server's metrics is ``least`` or more."""
        while not self.over.is_set() and await self.total(name, *labels) < least:
            pass

    @contextlib.asynccontextmanager
    async def holding(self, callers: int, mark: str, **headers: str) -> AsyncIterator[None]:
        """Keep so many requests in their seats until the end of the block."""
        async with asyncio.TaskGroup() as group:
            path = f"/hold?ms=600000&mark={mark}"
            held = [group.create_task(self.get(path, **headers)) for _ in range(callers)]
            try:
                yield
            finally:
                while not all(task.done() for task in held):
                    await self.get(f"/let-go?mark={mark}")
                    await asyncio.sleep(0.05)

    async def crowd(self) -> None:
        """Request more seats than bronze has or can borrow, until requests have timed out."""
        late = ("rejected_requests_total", BRONZE, 'reason="time-out"')
        while not self.over.is_set():
            so_far = await self.total(*late)
            async with self.holding(ELEPHANTS, "elephant", X_User="elephant"):
                await self.until(so_far + 1, *late)

    async def leave(self) -> None:
        """Hold the only seat of silver: one caller waits and disconnects; of four, two find the queue full."""
        left = ("rejected_requests_total", SILVER, 'reason="cancelled"')
        while not self.over.is_set():
            so_far = await self.total(*left)
            async with asyncio.TaskGroup() as staying, self.holding(1, "silver", X_Plan="silver"):
                await self.until(1, "current_executing_requests", SILVER)
                leaving = asyncio.create_task(self.get("/who", X_Plan="silver"))
                await self.until(1, "current_inqueue_requests", SILVER)
                leaving.cancel()
                await asyncio.wait({leaving})
                await self.until(so_far + 1, *left)
                for _ in range(4):
                    staying.create_task(self.get("/who", X_Plan="silver"))
                await self.until(2, "current_inqueue_requests", SILVER)
                await asyncio.sleep(0.1)

    async def wait_at_gate(self) -> None:
        """Hold the gate's capacity of 1 while another request waits for it."""
        while not self.over.is_set():
            async with self.holding(2, "report", X_Plan="report"):
                await self.until(1, "parked_requests", 'gate="reports"')
                await asyncio.sleep(0.05)

    async def ask(self, path: str, pause: float, **headers: str) -> None:
        while not self.over.is_set():
            await self.get(path, **headers)
            await asyncio.sleep(pause)

    async def talk(self) -> None:
        while not self.over.is_set():
            url = f"ws://127.0.0.1:{self.server.port}/talk"
            async with connect(url, additional_headers={"X-Plan": "gold"}, open_timeout=60) as talking:
                await talking.send("hello")
                assert await talking.recv() == "HELLO"
            await asyncio.sleep(0.7)

    async def all(self) -> None:
        async with asyncio.TaskGroup() as looking:
            look = looking.create_task(self.look())
            await self.ask_for_everything()
            look.cancel()

    async def ask_for_everything(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.crowd())
            group.create_task(self.leave())
            group.create_task(self.wait_at_gate())
            for mouse in range(3):
                group.create_task(self.ask("/hold?ms=120&mark=mouse", 0.3, X_User=f"mouse-{mouse}"))
            for _ in range(2):
                group.create_task(self.ask("/hold?ms=80&mark=alice", 0.3, X_Plan="gold", X_User="alice"))
                group.create_task(self.ask("/hold?ms=150&mark=crawler", 0.1, X_Plan="none"))
            group.create_task(self.ask("/who", 0.4, X_API_Key="guessed"))
            group.create_task(self.ask("/tell", 0.4))
            group.create_task(self.talk())


@dataclass(frozen=True)
class Loaded:
    """A Prometheus with what it scraped from servers under load from ``begin`` to ``end``."""

    prometheus: Prometheus
    begin: float
    end: float
    instances: Mapping[str, list[str]]

    def substitute(self, query: str, prefix: str, level: str = ".*") -> str:
        """Return the query with a value for each variable, as Grafana fills them in."""
        is_about_fleet = f"{prefix}_fleet_" in query and "priority_level" not in query
        job = f"{prefix}-fleet" if is_about_fleet else prefix
        instances = "|".join(re.escape(one) for one in self.instances[job]).replace("\\", "\\\\")
        values = {"__rate_interval": SPAN, "job": job, "instance": f"({instances})", "level": level}
        return re.sub(r"\$(\w+)", lambda found: values[found[1]], query)

    def series(self, target: Mapping[str, Any], prefix: str, level: str = ".*") -> list[dict[str, Any]]:
        """Return what Grafana would get: labels and finite values of each series that has any."""
        query = self.substitute(target["expr"], prefix, level)
        if target["instant"]:
            rows = self.prometheus.ask("query", query=query, time=self.end)["result"]
        else:
            times = {"start": self.begin, "end": self.end, "step": 0.5}
            rows = self.prometheus.ask("query_range", query=query, **times)["result"]
        found = []
        for row in rows:
            points = [(at, float(value)) for at, value in row.get("values") or [row["value"]]]
            finite = [(at, value) for at, value in points if math.isfinite(value)]
            if finite:
                found.append({"labels": row["metric"], "points": finite})
        return found

    def shows_events(self) -> bool:
        """Return whether each server was up at the end, and all events that the tests expect had happened."""
        up = self.prometheus.ask("query", query="up == 1", time=self.end)["result"]
        return (
            len(up) == sum(map(len, self.instances.values()))
            and reasons(self).keys() >= REASONS
            and "silver" in most(self, "Wait, 99 %", "priority_level")
            and most(self, "Left while waiting, by level", "priority_level").get("silver", 0) > 0
            and most(self, "Hang-ups", "phase").get("waiting", 0) > 0
            and "reports" in most(self, "Wait at gates, 99 %", "gate")
            and borrowed(self)["bronze"] > 0
            and smoothed(self)["bronze"] > 0
        )


class Wanted:
    """The queries that must have results before the load ends."""

    def __init__(self) -> None:
        queries = [
            (target, prefix, "bronze" if repeated else ".*")
            for prefix, board in BOARDS.items()
            for panel, repeated in panels(board)
            for target in panel["targets"]
        ]
        self.courses = [query for query in queries if not query[0]["instant"]]  # a range query that has data keeps it
        self.instants = [query for query in queries if query[0]["instant"]]

    def is_seen(self, loaded: Loaded) -> bool:
        self.courses = [query for query in self.courses if not loaded.series(*query)]
        return not self.courses and loaded.shows_events() and all(loaded.series(*query) for query in self.instants)


async def load(servers: Mapping[Server, str], prometheus: Prometheus, instances: Mapping[str, list[str]]) -> Loaded:
    """Let clients send requests to all servers until all expected data have been scraped."""
    # A connection for each request: on a busy machine httpx closes idle ones that another request is about to use.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    wanted, over, begin = Wanted(), asyncio.Event(), time.time()
    async with (
        httpx.AsyncClient(limits=limits, timeout=2 * PATIENCE, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):
        for server, prefix in servers.items():
            group.create_task(Callers(server, prefix, client, over).all())
        while True:
            await asyncio.sleep(1)
            loaded = Loaded(prometheus, begin, time.time(), instances)
            if loaded.end > begin + PATIENCE or await asyncio.to_thread(wanted.is_seen, loaded):
                over.set()
                return loaded


def configure(folder: Path, prefix: str, borrowing: str) -> dict[str, str]:
    """Return the environment of a server whose configuration differs in these two values."""
    text = CONFIG.read_text().replace("prefix: apf", f"prefix: {prefix}").replace("immediate", borrowing)
    is_fleet = "fleet" in borrowing
    path = folder / f"{prefix}-{borrowing.split(maxsplit=1)[0]}-{is_fleet}.yaml"
    if not is_fleet:
        shadow = path.with_suffix(".shadow.yaml")
        shadow.write_text(text.replace("level: jail", "level: bronze"))
        # adaptive, for its metrics, but always 10
        text = text.replace(
            "seats: 10", f"seats: {{adaptive: {{min: 10, max: 10}}}}\n  shadow: {{file: {shadow.name}}}"
        )
    path.write_text(text)
    return {"APF_TEST_CONFIG": str(path)}


def prometheus_settings(folder: Path, instances: Mapping[str, list[str]]) -> dict[str, Any]:
    """`grafana/prometheus.yaml`, faster, with these servers, and with the rules for both prefixes."""
    settings: dict[str, Any] = yaml.safe_load((HERE / "prometheus.yaml").read_text())
    [job] = settings["scrape_configs"]
    main(["--prefix", KUBERNETES, "--to", str(folder / KUBERNETES)])
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "500ms"},
        "rule_files": [str(where / name) for where in (HERE, folder / KUBERNETES) for name in settings["rule_files"]],
        "scrape_configs": [
            {**job, "job_name": prefix, "static_configs": [{"targets": targets}]}
            for prefix, targets in instances.items()
        ],
    }


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    program("prometheus")
    folder = tmp_path_factory.mktemp("grafana")
    kinds = [(PREFIX, "immediate"), (PREFIX, "periodic"), (KUBERNETES, "periodic")]
    with ExitStack() as stack:
        servers = {
            stack.enter_context(
                serve("tests.e2e.playground:app", environment=configure(folder, *kind), ready="/tell")
            ): kind[0]
            for kind in kinds
        }
        addresses = [f"127.0.0.1:{server.port}" for server in servers]
        instances = {PREFIX: addresses[:2], KUBERNETES: addresses[2:]}
        # Members of fleets, without load: their seats are not those that the load expects.
        for prefix in (PREFIX, KUBERNETES):
            environment = configure(folder, prefix, f"immediate\n  fleet: {{name: {prefix[:3]}, directory: {folder}}}")
            member = stack.enter_context(serve("tests.e2e.playground:app", environment=environment, ready="/tell"))
            instances[f"{prefix}-fleet"] = [f"127.0.0.1:{member.port}"]
        prometheus = stack.enter_context(scraping(prometheus_settings(folder, instances), folder))
        until(lambda: len(prometheus.ask("query", query="up == 1")["result"]) == len(servers) + 2, "first scrapes")
        yield asyncio.run(load(servers, prometheus, instances))


def cases() -> Iterator[Any]:
    for prefix, board in BOARDS.items():
        for panel, repeated in panels(board):
            yield pytest.param(prefix, panel, repeated, id=f"{prefix}-{panel['id']}-{panel['title']}")


# Queries


@pytest.mark.parametrize(("prefix", "panel", "repeated"), list(cases()))
def test_every_query_of_every_panel_has_data(
    loaded: Loaded, prefix: str, panel: Mapping[str, Any], *, repeated: bool
) -> None:
    for target in panel["targets"]:
        found = loaded.series(target, prefix, "bronze" if repeated else ".*")

        assert found, f"no data: {loaded.substitute(target['expr'], prefix)}"
        wanted = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert all(wanted <= one["labels"].keys() for one in found), f"{target['legendFormat']} needs other labels"
        if panel["type"] != "table" and target["legendFormat"] == "__auto":
            assert len(found) == 1, "one number"


@pytest.mark.parametrize("prefix", BOARDS)
def test_every_variable_has_values(loaded: Loaded, prefix: str) -> None:
    values = {}
    for variable in BOARDS[prefix]["templating"]["list"][1:]:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        assert found
        match = loaded.substitute(found[1], prefix)
        values[variable["name"]] = set(loaded.prometheus.ask(f"label/{found[2]}/values", **{"match[]": match}))

    assert values == {
        "job": {prefix, f"{prefix}-fleet"},
        "instance": set(loaded.instances[prefix]),
        "level": LEVELS,
    }


def find(prefix: str, title: str) -> dict[str, Any]:
    [panel] = [panel for panel, _ in panels(BOARDS[prefix]) if panel["title"] == title]
    return panel


def most(loaded: Loaded, title: str, label: str, number: int = 0) -> dict[str, float]:
    """Return the highest value of each series of a panel."""
    rows = loaded.series(find(PREFIX, title)["targets"][number], PREFIX)
    return {row["labels"].get(label, ""): max(value for _, value in row["points"]) for row in rows}


REASONS = {"queue-full", "concurrency-limit", "time-out", "cancelled"}


def reasons(loaded: Loaded) -> dict[str, float]:
    """Return the reasons of rejections, and the highest rate of each."""
    rates = most(loaded, "Rejected, by reason", "reason")
    return {reason: rate for reason, rate in rates.items() if rate > 0}


def borrowed(loaded: Loaded) -> dict[str, float]:
    return most(loaded, "Borrowed", "priority_level")


def smoothed(loaded: Loaded) -> dict[str, float]:
    """Return the demand of each level, which is 0 before the first periodic adjustment."""
    return most(loaded, "Demand and target", "priority_level", 3)


def bounds(loaded: Loaded, histogram: str, label: str, at: float | None = None) -> tuple[float, float]:
    """Return the bounds of the first and the last bucket with any count in the servers' own histograms."""
    query = f"sum by (le) ({histogram}_bucket{{{label}}})"
    rows = loaded.prometheus.ask("query", query=query, time=at or loaded.end)["result"]
    counts = sorted((float(row["metric"]["le"]), float(row["value"][1])) for row in rows)
    uppers = [bound for bound, _ in counts]
    filled = [index for index, (_, count) in enumerate(counts) if count > (counts[index - 1][1] if index else 0)]
    finite = [bound for bound in uppers if math.isfinite(bound)]
    return ([0.0, *uppers][filled[0]], min(uppers[filled[-1]], finite[-1]))


def test_panels_tell_what_happened(loaded: Loaded) -> None:
    waits = most(loaded, "Wait, 99 %", "priority_level")
    used = most(loaded, "Seats in use, by instance", "instance")

    assert reasons(loaded).keys() == REASONS
    assert 0.05 < waits["silver"] <= bounds(loaded, WAITS, SILVER)[1]
    assert borrowed(loaded)["bronze"] > 0
    assert borrowed(loaded)["jail"] == 0
    assert smoothed(loaded)["bronze"] > 0
    assert all(0 < part <= 1.3 for part in used.values())
    assert most(loaded, "Refused for credentials", "reason")["unknown-token"] > 0


def test_clients_that_hang_up_are_counted_as_such(loaded: Loaded) -> None:
    assert most(loaded, "Left while waiting, by level", "priority_level")["silver"] > 0
    assert most(loaded, "Hang-ups", "phase")["waiting"] > 0


def test_numbers_agree_with_each_other(loaded: Loaded) -> None:
    by_level = most(loaded, "Seats in use, by level", "priority_level")
    columns = find(PREFIX, "Levels now")["targets"]
    nominal = {row["labels"]["priority_level"]: row["points"][0][1] for row in loaded.series(columns[0], PREFIX)}
    [(_, servers)] = loaded.series(find(PREFIX, "Servers")["targets"][0], PREFIX)[0]["points"][-1:]

    assert servers == 2
    assert LEVELS - {"catch-all"} <= by_level.keys() <= nominal.keys()
    assert nominal == {"gold": 10, "silver": 2, "bronze": 6, "jail": 2, "catch-all": 2, "exempt": 0}


def test_gates_show_the_requests_that_wait_for_them(loaded: Loaded) -> None:
    waits = most(loaded, "Wait at gates, 99 %", "gate")
    rescues = most(loaded, "Events and rescues", "gate", 1)

    least, greatest = bounds(loaded, "apf_gate_wait_seconds", 'gate="reports"')
    assert least < waits["reports"] <= greatest
    assert rescues == {"reports": 0}


def test_a_heat_map_has_buckets_that_rise(loaded: Loaded) -> None:
    rows = loaded.series(find(PREFIX, "Wait of the served")["targets"][0], PREFIX)
    by_bound = {float(row["labels"]["le"]): row["points"][-1][1] for row in rows}
    heights = [by_bound[bound] for bound in sorted(by_bound)]

    assert all(one <= 1.05 * other for one, other in pairwise(heights))  # Prometheus extrapolates each by itself
    assert heights[0] < heights[-1]


def test_a_picture_can_be_drawn_of_it(loaded: Loaded, tmp_path: Path) -> None:
    """Draw the dashboard to the folder APF_TEST_PICTURES; without that variable, only some panels as a test."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    shown = [panel for panel, _ in panels(BOARDS[PREFIX]) if panel["type"] != "table"]
    data = [
        (panel, [loaded.series(target, PREFIX, "bronze|gold|jail") for target in panel["targets"]]) for panel in shown
    ]
    folder = os.environ.get("APF_TEST_PICTURES")
    path = Path(folder or tmp_path) / "dashboard.png"
    draw(data if folder else data[:6], path)

    assert path.stat().st_size > 20_000


# Rules


def test_prometheus_evaluates_all_rules_of_both_prefixes(loaded: Loaded) -> None:
    rules = loaded.prometheus.rules()

    assert len(rules) == 2 * sum(len(group["rules"]) for name in RULES for group in read_rules(name))
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []


def test_every_recorded_series_exists_for_each_level(loaded: Loaded) -> None:
    names = {rule["name"] for rule in loaded.prometheus.rules() if rule["type"] == "recording"}

    assert len(names) == 2 * len(read_rules("recording.rules.yaml")[0]["rules"])
    for name in names:
        rows = loaded.prometheus.ask("query", query=f"{name} >= 0", time=loaded.end)["result"]
        assert rows, name
        if ":" in name and name.startswith("job_level"):
            assert "bronze" in {row["metric"]["priority_level"] for row in rows}, name


def pending(loaded: Loaded) -> set[tuple[str, str | None]]:
    """Return the alerts that are pending in Prometheus, each with its level."""
    return {
        (rule["name"], alert["labels"].get("priority_level"))
        for rule in loaded.prometheus.rules()
        if rule["type"] == "alerting"
        for alert in rule["alerts"]
    }


def test_alerts_are_pending_for_what_happened_and_for_nothing_else(loaded: Loaded) -> None:
    happened = {
        ("APFRequestsRejected", "bronze"),
        ("APFRequestsTimeOut", "bronze"),
        ("APFClientsGiveUp", "silver"),
    }
    wrong = {"APFServerDown", "APFRequestsStuck", "APFKeysUnavailable"}

    # A scrape that fails makes a server look down until the next one; after the load nothing else changes.
    until(lambda: "APFServerDown" not in dict(pending(loaded)), "answer of all servers")
    found = pending(loaded)
    assert happened <= found
    assert {level for _, level in found} <= {"silver", "bronze", "jail", "gold", None}
    assert not wrong & {name for name, _ in found}
    for level in {level for name, level in found if name == "APFWaitsLong"}:  # a busy machine makes them longer
        label, now = f'priority_level="{level}"', time.time()
        assert any(bounds(loaded, WAITS.replace(PREFIX, job), label, now)[1] > 5 for job in BOARDS)
