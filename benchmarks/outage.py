"""Fairness during an outage of the database: ``python -m benchmarks.outage [--json] [--seconds 10]``.

A real PostgreSQL, an app on uvicorn whose pool has 5 connections, and 500 clients that send the next request as soon as
they are answered: 300 are one tenant's, four others have 50 each. In the middle the database is away: *paused*, it
neither answers nor closes connections; *stopped*, it shuts down and starts again. A request may wait for 10 s.

gates    requests wait for a connection, and for the breaker, in their queues
pool     the same without gates: requests with seats wait in the pool, for a second at most
"""

import argparse
import asyncio
import json
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from apf_middleware.testing import jain_index
from benchmarks.measure import print_json, print_table
from tests.support.databases import Postgres, postgres
from tests.support.servers import Server, serve

__all__ = ["CONNECTIONS", "TENANTS", "Outage", "Phase", "Plan", "endure"]

TENANTS: Final = {"elephant": 300, "ant": 50, "bee": 50, "cat": 50, "dog": 50}

CONNECTIONS: Final = 5
"""Of the app's pool."""

How = Literal["paused", "stopped"]

_WARM_UP: Final = 1.0
_CONFIG: Final = """\
apiVersion: apf/v1
kind: Server
spec: {{seats: 50, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: app}}
spec:
  shares: 100
  waitLimit: {limit:g}s
  queuing: {{queues: 64, handSize: 4, queueLengthLimit: 500}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: rows}}
spec:
  level: app
  precedence: 10
  gates: {gates}
  distinguisher: {{source: header, name: X-Tenant}}
  rules:
  - httpRules: [{{paths: [/rows]}}]
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: others}}
spec:
  level: app
  rules:
  - httpRules: [{{}}]
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds before, during and after the outage; ``limit`` is how long a request may wait."""

    before: float = 5
    outage: float = 10
    after: float = 15
    limit: float = 10
    how: How = "paused"
    has_gates: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; times are in seconds from the start."""

    tenant: str
    asked: float
    answered: float
    status: int

    @property
    def latency(self) -> float:
        return self.answered - self.asked


@dataclass(frozen=True, slots=True)
class Phase:
    """The responses in one part of the run: ``refused`` by the middleware (429 and 503), ``failed`` in the app."""

    name: str
    seconds: float
    served: dict[str, int]
    refused: int
    failed: int
    slowest: float
    free_slowest: float

    @property
    def jain(self) -> float:
        return jain_index(list(self.served.values()))


@dataclass(slots=True)
class Outage:
    """The result: ``counts`` are the app's counters, ``lost`` is the number of requests without a response."""

    plan: Plan
    phases: list[Phase] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    answers: list[Answer] = field(default_factory=list)


def endure(plan: Plan) -> Outage:
    """Start a database and a server, send requests, and interrupt the database for a while."""
    gates = "[breaker, db]" if plan.has_gates else "[]"
    with tempfile.TemporaryDirectory(prefix="apf-outage-") as folder, postgres() as database:
        config = Path(folder) / "apf.yaml"
        config.write_text(_CONFIG.format(limit=plan.limit, gates=gates))
        environment = {"APF_DATABASE": database.sqlalchemy_url("asyncpg"), "APF_CONFIG": str(config)}
        with serve("benchmarks.outage_app:app", environment=environment, ready="/free") as server:
            outage = asyncio.run(_Crowd(plan, server).run(database))
            with urllib.request.urlopen(f"{server.url}/tell", timeout=60) as response:  # noqa: S310 - it is ours
                outage.counts.update(json.load(response))
    return outage


class _Crowd:
    """Clients that send the next request as soon as they are answered."""

    def __init__(self, plan: Plan, server: Server) -> None:
        self.plan = plan
        self.server = server
        self.answers: list[Answer] = []
        self.asking: set[asyncio.Task[None]] = set()
        self.is_over = False
        self.lost = 0
        self._began = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._began

    async def run(self, database: Postgres) -> Outage:
        for tenant, clients in TENANTS.items():
            self.asking |= {asyncio.create_task(self._ask(tenant, "/rows", 0)) for _ in range(clients)}
        self.asking.add(asyncio.create_task(self._ask("free", "/free", 0.05)))
        plan = self.plan
        marks = [_WARM_UP]
        await asyncio.sleep(_WARM_UP + plan.before)
        marks.append(self.now())
        await asyncio.to_thread(database.pause if plan.how == "paused" else database.halt)
        await asyncio.sleep(plan.outage)
        marks.append(self.now())
        await asyncio.to_thread(database.resume if plan.how == "paused" else database.restart)
        await asyncio.sleep(plan.after)
        marks.append(self.now())
        self.is_over = True
        _, waiting = await asyncio.wait(self.asking, timeout=plan.limit + 5)
        for task in waiting:
            task.cancel()
        names = ("before", "outage", "after")
        phases = [self._phase(name, *marks[at : at + 2]) for at, name in enumerate(names)]
        return Outage(plan, phases, lost=self.lost + len(waiting), answers=self.answers)

    def _phase(self, name: str, begin: float, end: float) -> Phase:
        here = [answer for answer in self.answers if begin <= answer.answered < end]
        rows = [answer for answer in here if answer.tenant != "free"]
        free = [answer.latency for answer in here if answer.tenant == "free" and answer.status == 200]
        served = Counter(answer.tenant for answer in rows if answer.status == 200)
        refused = sum(answer.status in {429, 503} for answer in rows)
        return Phase(
            name,
            end - begin,
            {tenant: served[tenant] for tenant in TENANTS},
            refused,
            len(rows) - served.total() - refused,
            max((answer.latency for answer in rows), default=0.0),
            max(free, default=float("inf")),
        )

    async def _ask(self, tenant: str, path: str, pause: float) -> None:
        request = f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Tenant: {tenant}\r\n\r\n".encode()
        while not self.is_over:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            try:
                while not self.is_over:
                    asked = self.now()
                    writer.write(request)
                    status, retry_after = await _answer(reader)
                    self.answers.append(Answer(tenant, asked, self.now(), status))
                    if status != 200 or pause:
                        await asyncio.sleep(min(retry_after, 1.0) or pause or 0.1)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                self.lost += 1
            finally:
                writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, float]:
    """Return the response's status, and its Retry-After or 0."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    await reader.readexactly(int(headers.get("content-length", "0")))
    return int(first.split()[1]), float(headers.get("retry-after", "0"))


def _rows(outage: Outage) -> list[dict[str, Any]]:
    plan = outage.plan
    return [
        {
            "outage": plan.how,
            "waiting": "gates" if plan.has_gates else "pool",
            "phase": phase.name,
            "served_per_s": round(sum(phase.served.values()) / phase.seconds, 1),
            "jain": round(phase.jain, 3) if any(phase.served.values()) else None,
            "refused": phase.refused,
            "failed": phase.failed,
            "slowest_s": round(phase.slowest, 2),
            "free_slowest_ms": round(phase.free_slowest * 1000, 1),
            "pool_time_outs": outage.counts["pool time-outs"],
            "lost": outage.lost,
        }
        for phase in outage.phases
    ]


def main(arguments: Sequence[str] | None = None, run: Callable[[Plan], Outage] = endure) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=10, help="how long the database is away")
    asked = parser.parse_args(arguments)
    hows: tuple[How, ...] = ("paused", "stopped")
    plans = [
        Plan(outage=asked.seconds, after=asked.seconds + 5, how=how, has_gates=has_gates)
        for how in hows
        for has_gates in (True, False)
    ]
    rows = [row for plan in plans for row in _rows(run(plan))]
    if asked.json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
