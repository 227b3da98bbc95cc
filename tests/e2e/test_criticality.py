"""Priority inversion, KEP-1040's third bad scenario, across three services: a critical request behind batch work."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from tests.support.servers import serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BATCH = 8
CONFIG = """
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none, criticality: {{}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: batch}}
spec: {{shares: 50, maxSeats: {most}, waitLimit: 30s, queuing: {{queues: 1, handSize: 1, queueLengthLimit: 100}}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: users}}
spec: {{shares: 50, waitLimit: 30s, queuing: {{queues: 1, handSize: 1, queueLengthLimit: 100}}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: batch}}
spec: {{level: batch, precedence: 10, rules: [{{httpRules: [{{criticality: [sheddable, sheddablePlus]}}]}}]}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: free}}
spec: {{level: exempt, precedence: 2, rules: [{{httpRules: [{{paths: [/free]}}]}}]}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: users, rules: [{{httpRules: [{{}}]}}]}}
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def number_waiting(client: httpx.AsyncClient, place: str) -> float:
    metrics = (await client.get(f"{place}/metrics")).text
    waiting = [line for line in metrics.splitlines() if line.startswith("apf_current_inqueue_requests{")]
    return sum(float(line.rpartition(" ")[2]) for line in waiting)


async def finished_batch(folder: Path, *, passes_on: bool) -> tuple[str, str, int]:
    """Return where the last service put a critical request, and how much batch work was finished before it.

    None of the batch work is finished before that service has both: the whole batch and the critical request.
    """
    places = []
    async with AsyncExitStack() as stack:
        for seats, most in ((100, 50), (100, 50), (2, 1)):
            config = folder / f"{seats}.yaml"
            config.write_text(CONFIG.format(seats=seats, most=most))
            started = serve("tests.e2e.criticality_app:app", environment={"CRITICALITY_CONFIG": str(config)})
            server = await asyncio.to_thread(started.__enter__)
            stack.push_async_callback(asyncio.to_thread, started.__exit__, None, None, None)
            places.append(server.url)
        first, second, third = places
        url = f"{first}/ask?of={second}/ask?of={third}"
        batch_url = f"{url}/held{'' if passes_on else '?silent=1'}"
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            headers = {"x-criticality": "sheddable"}
            batch = [asyncio.create_task(client.get(batch_url, headers=headers)) for _ in range(BATCH)]
            running = 1 if passes_on else 2
            while await number_waiting(client, third) < BATCH - running:  # noqa: ASYNC110 - another process's
                await asyncio.sleep(0.01)
            critical = asyncio.create_task(client.get(f"{url}/work", headers={"x-criticality": "critical"}))
            while not critical.done() and await number_waiting(client, third) <= BATCH - running:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await client.get(f"{third}/free")
            level, criticality, before = (await critical).json()
            await asyncio.gather(*batch)
            return level, criticality, before


async def test_a_critical_request_does_not_wait_behind_batch_work_of_other_services(tmp_path: Path) -> None:
    assert await finished_batch(tmp_path, passes_on=True) == ("users", "critical", 0)


async def test_without_passing_it_on_it_waits_for_nearly_all_of_it(tmp_path: Path) -> None:
    level, criticality, before = await finished_batch(tmp_path, passes_on=False)

    assert (level, criticality) == ("users", "critical")
    assert before >= BATCH - 1
