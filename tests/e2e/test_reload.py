"""Real servers whose configuration changes while requests wait: by SIGHUP, and when the file changes."""

import asyncio
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from apf_middleware import APFMiddleware
from tests.e2e.observing import become
from tests.e2e.playground import bare
from tests.support.servers import Kind, Server, serve

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

BEFORE = (Path(__file__).parent / "data" / "playground.yaml").read_text().replace("Timeout: 20s", "Timeout: 2m")
AFTER = (
    BEFORE.replace("seats: 2,", "seats: 20,")
    .replace("name: crowd", "name: people")
    .replace("level: crowd", "level: people")
)

HELD = {"ms": "60000", "mark": "held"}
"""Of a request that runs until it is let go."""

app = APFMiddleware(bare, os.environ.get("APF_TEST_CONFIG"), watch="APF_TEST_CONFIG" in os.environ)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "apf.yaml"
    path.write_text(BEFORE)
    return path


async def until_loaded(client: httpx.AsyncClient, outcome: str, number: int) -> None:
    async with asyncio.timeout(60):
        while f'loads_total{{outcome="{outcome}"}} {number}' not in (await client.get("/metrics")).text:  # noqa: ASYNC110 - it comes from elsewhere
            await asyncio.sleep(0.02)


async def until_in_force(client: httpx.AsyncClient, level: str) -> None:
    async with asyncio.timeout(60):
        while (await client.get("/who", headers={"X-User": "somebody"})).headers["x-apf-priority-level"] != level:  # noqa: ASYNC110 - it comes from elsewhere
            await asyncio.sleep(0.02)


async def change_while_requests_wait(server: Server, file: Path, *, by_signal: bool) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
        running = [asyncio.create_task(client.get("/hold", params=HELD)) for _ in range(2)]
        await become(client, "executing", 2)
        waiting = [asyncio.create_task(client.get("/hold", headers={"X-User": str(n)})) for n in range(8)]
        await become(client, "inqueue", 8)
        file.write_text(AFTER)  # noqa: ASYNC240 - a small file of the test
        if by_signal:
            server.process.send_signal(signal.SIGHUP)
        await until_loaded(client, "success", 2)
        await client.get("/let-go", params=HELD)
        await until_in_force(client, "people")
        answers = await asyncio.gather(*running, *waiting)
        assert [answer.status_code for answer in answers] == [200] * 10
        assert {answer.headers["x-apf-priority-level"] for answer in answers} == {"crowd"}

        file.write_text("kind: [")  # noqa: ASYNC240 - a small file of the test
        if by_signal:
            server.process.send_signal(signal.SIGHUP)
        await until_loaded(client, "failure", 1)
        await until_in_force(client, "people")
    assert server.process.poll() is None


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("uvicorn", ("--loop", "uvloop")),
        ("uvicorn", ("--loop", "asyncio")),
        ("hypercorn", ("--workers", "0", "--worker-class", "trio")),
    ],
    ids=["uvicorn-uvloop", "uvicorn-asyncio", "hypercorn-trio"],
)
async def test_a_server_reloads_on_sighup_without_losing_requests(
    kind: Kind, options: tuple[str, ...], file: Path
) -> None:
    environment = {"APF_TEST_CONFIG": str(file)}
    with serve("tests.e2e.playground:app", *options, kind=kind, environment=environment, ready="/tell") as server:
        await change_while_requests_wait(server, file, by_signal=True)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("uvicorn", ()), ("hypercorn", ("--workers", "0", "--worker-class", "trio")), ("granian", ())],
    ids=["uvicorn", "hypercorn-trio", "granian"],
)
async def test_a_server_that_watches_its_file_reloads_by_itself(
    kind: Kind, options: tuple[str, ...], file: Path
) -> None:
    environment = {"APF_TEST_CONFIG": str(file)}
    with serve("tests.e2e.test_reload:app", *options, kind=kind, environment=environment, ready="/tell") as server:
        await change_while_requests_wait(server, file, by_signal=False)


async def test_an_operator_has_the_file_read_by_a_post(file: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret-o,olga,1,"operators"\n')
    guard = f"authentication: [{{type: tokens, file: {tokens}}}], admin: {{operators: [operators]}}"
    file.write_text(BEFORE.replace("seats: 2,", f"seats: 2, {guard},"))  # noqa: ASYNC240 - as above
    environment = {"APF_TEST_CONFIG": str(file)}
    path, olga = "/debug/api_priority_and_fairness/reload", {"Authorization": "Bearer secret-o"}
    with serve("tests.e2e.playground:app", environment=environment, ready="/tell") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
            file.write_text(AFTER.replace("seats: 20,", f"seats: 20, {guard},"))  # noqa: ASYNC240 - as above
            assert (await client.post(path)).status_code == 401
            answer = await client.post(path, headers=olga, content=b"x" * 100_000)
            assert (answer.status_code, answer.json()["seats"]) == (200, 20)
            assert (await client.get("/who")).headers["x-apf-priority-level"] == "people"
            file.write_text("kind: [")  # noqa: ASYNC240 - as above
            answer = await client.post(path, headers=olga)
            assert (answer.status_code, answer.json()["problems"][0]["file"]) == (422, str(file))
            assert (await client.get("/who")).headers["x-apf-priority-level"] == "people"


async def test_a_server_that_began_without_gates_gets_one_on_sighup(file: Path) -> None:
    gated = BEFORE.replace("seats: 2,", "seats: 20, gates: [{name: one-at-a-time, capacity: 1}],").replace(
        "level: crowd", "level: crowd\n  gates: [one-at-a-time]"
    )
    assert gated.count("one-at-a-time") == 2
    with serve("tests.e2e.playground:app", environment={"APF_TEST_CONFIG": str(file)}, ready="/tell") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
            before = asyncio.create_task(client.get("/hold", params=HELD))
            await become(client, "executing", 1)
            file.write_text(gated)  # noqa: ASYNC240 - a small file of the test
            server.process.send_signal(signal.SIGHUP)
            await until_loaded(client, "success", 2)
            await client.get("/let-go", params=HELD)
            began = time.monotonic()
            answers = await asyncio.gather(*[client.get("/hold", params={"ms": "100"}) for _ in range(5)])
            took = time.monotonic() - began
            gates = (await client.get("/metrics")).text

    assert [answer.status_code for answer in (await before, *answers)] == [200] * 6
    assert took > 0.45, "one at a time, though there are 20 seats"
    assert 'apf_parked_requests{gate="one-at-a-time"} 0' in gates
