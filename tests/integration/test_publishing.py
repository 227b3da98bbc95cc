"""A worker's counters are visible to the other workers, also when it gets no more requests."""

from pathlib import Path

import anyio
import pytest

from apf_middleware.asgi import service as module
from apf_middleware.metrics import scrape
from tests.support.protected_app import ProtectedApp
from tests.support.until import until

pytestmark = pytest.mark.anyio

SOON_NS = 20_000_000


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory where workers publish, much more often than by default."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(module, "_HOUSEKEEPING_NS", SOON_NS)
    return tmp_path


def published(directory: Path, name: str) -> float | None:
    """Return the sum of the metric's series that another worker would read."""
    lines = scrape(directory)[0].decode().splitlines()
    found = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"apf_{name}{{")]
    return sum(found) if found else None


async def until_published(directory: Path, name: str, wanted: float) -> None:
    await until(lambda: published(directory, name) == wanted)


async def test_the_last_request_is_reported_without_another_one(directory: Path) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        for number in range(3):
            await protected.request(f"/{number}").end()

        await until_published(directory, "dispatched_requests_total", 3)
        protected.middleware.service.end()


async def test_the_end_of_a_long_request_is_reported(directory: Path) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        holder = await protected.holder()
        await until_published(directory, "current_executing_requests", 1)
        protected.finish()
        await holder.end()

        await until_published(directory, "current_executing_requests", 0)
        protected.middleware.service.end()


async def test_a_worker_is_listed_from_its_start_to_its_end(directory: Path) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        service = protected.middleware.service
        service.begin()
        assert "apf_server_seats 1\n" in scrape(directory)[0].decode()
        await protected.request("/1").end()
        service.end()
        await anyio.sleep(3 * SOON_NS / 10**9)

        assert "apf_server_seats" not in scrape(directory)[0].decode(), "nothing is published after the end"
        assert published(directory, "dispatched_requests_total") == 1


async def test_a_controller_without_waiting_requests_sets_no_alarm(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        service = protected.middleware.service
        await protected.request("/1").end()
        await until_published(directory, "dispatched_requests_total", 1)
        monkeypatch.setattr(service.scrape, "publish", lambda: pytest.fail("there is nothing new"))
        await anyio.sleep(3 * SOON_NS / 10**9)
        service.end()


async def test_a_single_worker_publishes_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR")
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        await protected.request("/1").end()
        assert protected.middleware.service._publishing._at is None
        assert list(directory.iterdir()) == []  # noqa: ASYNC240 - a small one
