"""The dashboard and the rules of `grafana/`, with a real Prometheus that has scraped real servers under load.

Three servers: two of one job with levels that lend at each dispatch and periodically, and one whose metrics have
Kubernetes' prefix. Every query that a panel asks must have an answer.
"""

import asyncio
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from websockets.asyncio.client import connect

from benchmarks.servers import Server, serve
from grafana.build import HERE, PREFIX, RULES, main
from tests.e2e.dashboards import BOARDS, KUBERNETES, panels, read_rules
from tests.e2e.drawing import draw
from tests.e2e.prometheus import Prometheus, program, scraping, until

CONFIG = Path(__file__).parent / "data" / "dashboard.yaml"
SECONDS = 10.0  # of load: beyond the first periodic adjustment, ten seconds after a server's start
SPAN = "5s"  # what $__rate_interval stands for
"""Metrics that a server without reload doesn't tell; their panels are asked as soon as there is one that does."""

pytestmark = pytest.mark.timeout(90)


# The load


class Callers:
    """Everybody who asks one server: until ``end`` of the event loop's clock, again and again."""

    def __init__(self, server: Server, client: httpx.AsyncClient, end: float) -> None:
        self.server = server
        self.client = client
        self.end = end

    async def ask(self, path: str, pause: float, *, patience: float = 10, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        while asyncio.get_running_loop().time() < self.end:
            with suppress(httpx.ReadTimeout):  # the client hangs up
                await self.client.get(self.server.url + path, headers=named, timeout=httpx.Timeout(10, read=patience))
            await asyncio.sleep(pause)

    async def talk(self) -> None:
        while asyncio.get_running_loop().time() < self.end:
            url = f"ws://127.0.0.1:{self.server.port}/talk"
            async with connect(url, additional_headers={"X-Plan": "gold"}) as talking:
                await talking.send("hello")
                assert await talking.recv() == "HELLO"
            await asyncio.sleep(0.7)

    async def all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(12):
                group.create_task(self.ask("/hold?ms=220", 0.08, X_User="elephant"))
            for mouse in range(3):
                group.create_task(self.ask("/hold?ms=120", 0.3, X_User=f"mouse-{mouse}"))
            group.create_task(self.ask("/hold?ms=300", 0.2, patience=0.09, X_User="elephant"))
            for _ in range(2):
                group.create_task(self.ask("/hold?ms=80", 0.3, X_Plan="gold", X_User="alice"))
                group.create_task(self.ask("/hold?ms=150", 0.1, X_Plan="none"))
                group.create_task(self.ask("/hold?ms=100", 0.05, X_Plan="report"))  # they wait for each other
            group.create_task(self.ask("/who", 0.4, X_API_Key="guessed"))
            group.create_task(self.ask("/tell", 0.4))
            group.create_task(self.talk())


async def load(servers: list[Server]) -> None:
    limits = httpx.Limits(max_connections=None)
    end = asyncio.get_running_loop().time() + SECONDS
    async with httpx.AsyncClient(limits=limits, trust_env=False) as client, asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(Callers(server, client, end).all())


@dataclass(frozen=True)
class Loaded:
    """A Prometheus that has seen servers under load from ``begin`` to ``end``."""

    prometheus: Prometheus
    begin: float
    end: float
    instances: Mapping[str, list[str]]

    def substitute(self, query: str, prefix: str, level: str = ".*") -> str:
        """Return the query with a value for each variable, as Grafana fills them in."""
        instances = "|".join(re.escape(one) for one in self.instances[prefix]).replace("\\", "\\\\")
        values = {"__rate_interval": SPAN, "job": prefix, "instance": f"({instances})", "level": level}
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


def configure(folder: Path, prefix: str, borrowing: str) -> dict[str, str]:
    """Return the environment of a server whose configuration differs in these two values."""
    text = CONFIG.read_text().replace("prefix: apf", f"prefix: {prefix}").replace("immediate", borrowing)
    path = folder / f"{prefix}-{borrowing}.yaml"
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
        servers = [
            stack.enter_context(serve("tests.e2e.playground:app", environment=configure(folder, *kind), ready="/tell"))
            for kind in kinds
        ]
        addresses = [f"127.0.0.1:{server.port}" for server in servers]
        instances = {PREFIX: addresses[:2], KUBERNETES: addresses[2:]}
        prometheus = stack.enter_context(scraping(prometheus_settings(folder, instances), folder))
        until(lambda: len(prometheus.ask("query", query="up == 1")["result"]) == len(servers), "first scrapes")
        begin = time.time()
        asyncio.run(load(servers))
        yield Loaded(prometheus, begin + 1, time.time(), instances)


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
        "job": {prefix},
        "instance": set(loaded.instances[prefix]),
        "level": {"gold", "bronze", "jail", "exempt", "catch-all"},
    }


def find(prefix: str, title: str) -> dict[str, Any]:
    [panel] = [panel for panel, _ in panels(BOARDS[prefix]) if panel["title"] == title]
    return panel


def most(loaded: Loaded, title: str, label: str, number: int = 0) -> dict[str, float]:
    """Return the highest value of each series of a panel."""
    rows = loaded.series(find(PREFIX, title)["targets"][number], PREFIX)
    return {row["labels"].get(label, ""): max(value for _, value in row["points"]) for row in rows}


def test_panels_tell_what_happened(loaded: Loaded) -> None:
    reasons = most(loaded, "Rejected, by reason", "reason")
    waits = most(loaded, "Wait, 99 %", "priority_level", 0)
    borrowed = most(loaded, "Borrowed", "priority_level")
    used = most(loaded, "Seats in use, by instance", "instance")

    assert {reason for reason, rate in reasons.items() if rate > 0} == {
        "queue-full",
        "concurrency-limit",
        "time-out",
        "cancelled",
    }
    assert 0.05 < max(waits.values()) <= 0.5  # the limit is 0.2 s, and a busy machine is late by a bucket
    assert borrowed["bronze"] > 0
    assert borrowed["jail"] == 0
    assert all(0 < part <= 1.3 for part in used.values())
    assert most(loaded, "Refused for credentials", "reason")["unknown-token"] > 0


def test_clients_that_hang_up_are_counted_as_such(loaded: Loaded) -> None:
    assert most(loaded, "Left while waiting, by level", "priority_level")["bronze"] > 0
    assert most(loaded, "Hang-ups", "phase")["waiting"] > 0


def test_numbers_agree_with_each_other(loaded: Loaded) -> None:
    by_level = most(loaded, "Seats in use, by level", "priority_level")
    columns = find(PREFIX, "Levels now")["targets"]
    nominal = {row["labels"]["priority_level"]: row["points"][0][1] for row in loaded.series(columns[0], PREFIX)}
    [(_, servers)] = loaded.series(find(PREFIX, "Servers")["targets"][0], PREFIX)[0]["points"][-1:]

    assert servers == 2
    assert {"gold", "bronze", "jail", "exempt"} <= by_level.keys() <= nominal.keys()
    assert nominal == {"gold": 8, "bronze": 6, "jail": 2, "catch-all": 2, "exempt": 0}


def test_gates_tell_who_waits_for_them(loaded: Loaded) -> None:
    waits = most(loaded, "Wait at gates, 99 %", "gate")
    rescues = most(loaded, "Events and rescues", "gate", 1)

    assert 0 < waits["reports"] <= 0.5  # as above
    assert rescues == {"reports": 0}


def test_a_heat_map_has_buckets_that_rise(loaded: Loaded) -> None:
    rows = loaded.series(find(PREFIX, "Wait of the served")["targets"][0], PREFIX)
    by_bound = {float(row["labels"]["le"]): max(value for _, value in row["points"]) for row in rows}
    heights = [by_bound[bound] for bound in sorted(by_bound)]

    assert heights == sorted(heights)
    assert heights[0] < heights[-1]


def test_a_picture_can_be_drawn_of_it(loaded: Loaded, tmp_path: Path) -> None:
    """For somebody to look at: where, says APF_TEST_PICTURES. Otherwise nobody does, and some panels are enough."""
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
        rows = loaded.prometheus.ask("query", query=f"{name} >= 0")["result"]
        assert rows, name
        if ":" in name and name.startswith("job_level"):
            assert "bronze" in {row["metric"]["priority_level"] for row in rows}, name


def test_alerts_are_pending_for_what_happened_and_for_nothing_else(loaded: Loaded) -> None:
    pending = {
        (rule["name"], alert["labels"].get("priority_level"))
        for rule in loaded.prometheus.rules()
        if rule["type"] == "alerting"
        for alert in rule["alerts"]
    }

    assert {("APFRequestsRejected", "bronze"), ("APFRequestsTimeOut", "bronze")} <= pending
    assert {level for _, level in pending} <= {"bronze", "jail", "gold", None}
    assert not {name for name, _ in pending} & {
        "APFServerDown",
        "APFRequestsStuck",
        "APFKeysUnavailable",
        "APFWaitsLong",
    }
