"""``apf shadow`` as an operator runs it, on a real server with two workers under overload."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.shop import Shop, open_shop
from tests.support.command_line import Outcome

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

REQUESTS = 1_000
AT_A_TIME = 60  # requests for four seats


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop("--timeout-keep-alive", "60", request_timeout="240s") as opened:
        yield opened


def shadow(shop: Shop, *arguments: object, status: int = 0) -> Outcome:
    result = shop.apf(*arguments, group="shadow")
    assert result.returncode == status, result.stderr
    return result


def report(shop: Shop) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shadow(shop, "report", "-o", "json").stdout)
    return found


async def load(shop: Shop, requests: int) -> None:
    """Send many more requests at a time than there are seats."""
    limits = httpx.Limits(max_connections=AT_A_TIME)
    async with httpx.AsyncClient(base_url=shop.server.url, limits=limits, timeout=60) as client:
        numbers = iter(range(requests))

        async def send() -> None:
            for number in numbers:
                headers = {"X-User": f"user-{number % 7}"}
                assert (await client.get(f"/hold?ms={30 + number % 17}", headers=headers)).status_code == 200

        await asyncio.gather(*(send() for _ in range(AT_A_TIME)))


async def test_the_same_configuration_agrees_under_overload(shop: Shop) -> None:
    new = shop.folder / "same.yaml"
    new.write_text(shop.config.read_text())
    assert "is tried in 2 of 2 workers" in shadow(shop, "start", new).stdout
    await load(shop, REQUESTS)

    found = report(shop)
    assert found["requests"] == REQUESTS
    assert found["otherwise"] == 0
    waited = sum(one["requests"] for one in found["decisions"] if one["real"] == "waited")
    assert waited >= REQUESTS / 10, found["decisions"]  # nearly all, unless the machine is too busy to ask for more
    assert found["decided"] == REQUESTS
    assert found["agreeing"] >= 0.999 * found["decided"], found["decisions"]

    async with httpx.AsyncClient(base_url=shop.server.url) as client:
        metrics = (await client.get("/metrics")).text
    numbers = dict(re.findall(r"^apf_(\S+?)(?:\{[^\n]*)? (\S+)$", metrics, re.MULTILINE))
    assert float(numbers["shadow_requests_total"]) > 0
    assert shadow(shop, "stop").stdout.startswith(f"{new}: {REQUESTS:,} requests")
    shadow(shop, "report", status=1)


async def test_another_configuration_is_tried_and_promoted(shop: Shop) -> None:
    new = shop.folder / "new.yaml"
    text = shop.config.read_text().replace("capability: 2", "capability: 8").replace("name: everybody", "name: all")
    new.write_text(text)
    shadow(shop, "start", new)
    await load(shop, 400)

    found = report(shop)
    assert found["otherwise"] == 400
    [difference] = found["differences"]
    assert (difference["real_schema"], difference["schema"]) == ("everybody", "all")
    assert difference["examples"][0]["path"] == "/hold"
    at_once = sum(one["requests"] for one in found["decisions"] if one["shadow"] == "at-once")
    assert at_once > sum(one["requests"] for one in found["decisions"] if one["real"] == "at-once")
    shown = shadow(shop, "report").stdout
    assert "everybody (web) → all (web)" in shown
    assert "Note: Durations are those of the real server." in shown

    promoted = shadow(shop, "promote").stdout.splitlines()
    assert promoted == [
        f"{new} is in force until the next reload or restart.",
        "The server's own files are unchanged: write the configuration there to keep it.",
    ]
    listed = json.loads(shop.apf("list", "-o", "json").stdout)
    assert {one["name"]: one["max"] for one in listed["queues"]}["web"] == 16
    shadow(shop, "report", status=1)


async def test_a_broken_configuration_is_not_tried(shop: Shop) -> None:
    new = shop.folder / "broken.yaml"
    new.write_text(shop.config.read_text().replace("seats: 16", "seats: many"))

    assert "broken.yaml:5" in shadow(shop, "start", new, status=1).stderr
