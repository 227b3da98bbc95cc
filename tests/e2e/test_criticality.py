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
metadata: {{name: all}}
spec: {{level: users, rules: [{{httpRules: [{{}}]}}]}}
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def unfinished_batch(folder: Path, *, passes_on: bool) -> tuple[int, list[str]]:
    """Return how much batch work is left when a critical request is done, and where the last service put that."""
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
        url = f"{first}/ask?of={second}/ask?of={third}/work{'' if passes_on else '?silent=1'}"
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            batch = [asyncio.create_task(client.get(url, headers={"x-criticality": "sheddable"})) for _ in range(BATCH)]
            while True:  # until the last service has all of it
                metrics = (await client.get(f"{third}/metrics")).text
                waiting = [line for line in metrics.splitlines() if line.startswith("apf_current_inqueue_requests{")]
                if sum(float(line.rpartition(" ")[2]) for line in waiting) >= BATCH - 3:
                    break
                await asyncio.sleep(0.01)
            place = (await client.get(url, headers={"x-criticality": "critical"})).json()
            left = sum(not one.done() for one in batch)
            await asyncio.gather(*batch)
            return left, place


async def test_a_critical_request_does_not_wait_behind_batch_work_of_other_services(tmp_path: Path) -> None:
    left, place = await unfinished_batch(tmp_path, passes_on=True)

    assert place == ["users", "critical"]
    assert left >= 3


async def test_without_passing_it_on_it_waits_for_nearly_all_of_it(tmp_path: Path) -> None:
    left, place = await unfinished_batch(tmp_path, passes_on=False)

    assert place == ["users", "critical"]
    assert left <= 2
