"""A gate that YAML names and the app's startup makes, for a pool of real PostgreSQL connections."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import databases
from tests.support.databases import Postgres
from tests.support.prerequisites import require_postgres
from tests.support.servers import ServerStartError, serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CONFIG = """
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: shop}
spec: {shares: 100, waitLimit: 10s}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: orders}
spec:
  level: shop
  precedence: 100
  gates: [db]
  rules:
  - httpRules: [{paths: ["/orders"]}]
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    require_postgres()
    with databases.postgres() as server:
        yield server


@pytest.fixture
def environment(postgres: Postgres, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "apf.yaml").write_text(CONFIG)
    return {"APF_TEST_CONFIG": str(tmp_path / "apf.yaml"), "APF_TEST_DATABASE": postgres.url}


async def test_requests_wait_for_connections_at_the_gate_and_not_in_the_pool(environment: dict[str, str]) -> None:
    with serve("tests.e2e.pooled:app", environment=environment, ready="/prices") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
            answers = await asyncio.gather(*[client.get("/orders") for _ in range(10)])

    assert [answer.status_code for answer in answers] == [200] * 10
    assert {answer.json()["had to wait in the pool"] for answer in answers} == {0}


def test_a_server_whose_app_forgets_the_gate_does_not_start(environment: dict[str, str]) -> None:
    with (
        pytest.raises(ServerStartError) as caught,
        serve("tests.e2e.pooled:app", environment={**environment, "APF_TEST_FORGETS": "yes"}),
    ):
        raise AssertionError
    written = str(caught.value)
    assert "error: spec.gates[0] is 'db', but there is no gate of this name. There are: none" in written
    assert "add it to Gates before the startup ends" in written
    assert "Application startup failed. Exiting." in written


async def test_without_lifespan_only_requests_that_need_the_gate_are_refused(environment: dict[str, str]) -> None:
    with serve("tests.e2e.pooled:app", "--lifespan", "off", environment=environment, ready="/prices") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
            statuses = [(await client.get(path)).status_code for path in ("/orders", "/orders", "/prices")]
        written = server.output()

    assert statuses == [503, 503, 200]
    assert written.count("apf.gate-missing gate=db") == 1
