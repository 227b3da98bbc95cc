"""``apf switch`` as an operator runs it, against a server with two workers while requests wait."""

import asyncio
import re
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.shop import Shop, open_shop

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

REQUESTS = 60


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop(request_timeout="240s") as opened:
        yield opened


def switch(shop: Shop, *arguments: str) -> list[str]:
    result = shop.apf(*arguments, group="switch")
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def count(shop: Shop, state: str) -> int:
    """Return the requests of both workers in this state, as the metrics of named queues have them."""
    listed = shop.apf("list", "-o", "json").stdout
    return sum(int(number) for number in re.findall(rf'"{state}": (\d+)', listed))


async def until(shop: Shop, state: str, least: int) -> None:
    deadline = time.monotonic() + 60
    while await asyncio.to_thread(count, shop, state) < least:
        assert time.monotonic() < deadline, shop.server.output()


async def test_nobody_is_lost_when_a_server_is_switched_off_and_on(shop: Shop) -> None:
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=shop.server.url, limits=limits, timeout=60) as client:
        holders = [asyncio.create_task(client.get("/hold?ms=5000")) for _ in range(REQUESTS)]
        await until(shop, "inqueue", 1)

        assert switch(shop, "off")[0] == "mode: off"
        await until(shop, "inqueue", 0)
        assert await asyncio.to_thread(count, shop, "inqueue") == 0
        assert (await client.get("/who")).json()["seats"] == 0
        [mode, passed] = switch(shop)
        assert mode == "mode: off"
        assert int(passed.rpartition(" ")[2]) >= 2

        assert switch(shop, "observe")[0] == "mode: observe"
        observed = await asyncio.gather(*(client.get("/hold?ms=300") for _ in range(REQUESTS)))
        assert {one.status_code for one in observed} == {200}
        assert f"passed in the mode observe: {REQUESTS}" in switch(shop)

        assert switch(shop, "on")[0] == "mode: on"
        assert {one.status_code for one in await asyncio.gather(*holders)} == {200}
        answers = await asyncio.gather(*(client.get("/who") for _ in range(20)))
        assert {(one.status_code, one.json()["seats"]) for one in answers} == {(200, 1)}
    lines = shop.server.output()
    for step in ("mode=off before=on", "mode=observe before=off", "mode=on before=observe"):
        assert lines.count(f"apf.switched {step}") == 2, "in each worker"
