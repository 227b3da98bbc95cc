"""A worker's counters are visible to the other workers, also when it gets no more requests."""

import shutil
from pathlib import Path

import anyio
import pytest
from starlette.types import Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi import service as module
from apf_middleware.asgi.service import Service
from apf_middleware.metrics import scrape
from tests.support.busy_threads import busy_threads
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


async def test_a_scrape_doesnt_wait_for_the_threads_of_the_app() -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        with busy_threads(), anyio.fail_after(60):
            scraped = await protected.request("/metrics").end()
        assert b"apf_server_seats 1\n" in scraped.content
        protected.middleware.service.end()


async def test_an_idle_worker_publishes_less_often(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        service = protected.middleware.service
        await protected.request("/1").end()
        await until_published(directory, "dispatched_requests_total", 1)
        monkeypatch.setattr(service.scrape, "publish", lambda: pytest.fail("there is nothing new"))
        await anyio.sleep(3 * SOON_NS / 10**9)
        service.end()


async def test_the_time_of_an_idle_worker_counts_in_ratios(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ratios of all workers together would otherwise be those of the workers with requests."""
    monkeypatch.setattr(module, "_IDLE_NS", SOON_NS)

    def observed_ns() -> float:
        return published(directory, "priority_level_seat_utilization_count") or 0

    async def until_more() -> None:
        before = observed_ns()
        await until(lambda: observed_ns() > before)

    async with anyio.create_task_group() as tasks:
        service = ProtectedApp(tasks).middleware.service
        service.begin()
        await until_more()
        await until_more()
        service.end()


async def no_app(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotImplementedError


def service_of(file: Path, spec: str) -> Service:
    write(file, spec)
    return APFMiddleware(no_app, file).service


def write(file: Path, spec: str) -> None:
    file.write_text(f"apiVersion: apf/v1\nkind: Server\nmetadata: {{name: server}}\nspec: {spec}\n")


async def test_changes_are_reported_by_a_worker_without_requests(directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "apf.yaml"

    async def until_there(line: str) -> None:
        await until(lambda: f"{line}\n" in scrape(directory)[0].decode())

    service = service_of(file, "{seats: 10}")
    service.begin()
    write(file, "{seats: 20}")
    assert await service.reload()
    await until_there("apf_server_seats 20")
    write(file, "{seats: many}")
    assert not await service.reload()
    await until_there('apf_configuration_loads_total{outcome="failure"} 1')
    await until_there("apf_configuration_last_load_successful 0")
    service.switch("observe")
    await until_there('apf_mode{mode="observe"} 1')
    service.queues.operate("users", "pause")
    await until_there('apf_queue_state{queue="users",state="Paused"} 1')
    service.end()


async def test_a_directory_that_was_removed_does_not_end_the_server(
    directory: Path, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """An error would end trio's event loop, and at the end of the server the app would not be told of it."""
    file = tmp_path_factory.mktemp("etc") / "apf.yaml"
    service = service_of(file, "{}")
    service.begin()
    shutil.rmtree(directory)
    write(file, "{defaults: none}")  # new files are needed when series have gone
    assert await service.reload()
    await until(lambda: "apf.metrics-failed" in caplog.text)
    service.publish_soon()
    await anyio.sleep(3 * SOON_NS / 10**9)
    service.end()
    [failure] = [one.getMessage() for one in caplog.records if "apf.metrics-failed" in one.getMessage()]
    assert failure.startswith(f"apf.metrics-failed directory={directory} error=[Errno 2]")


async def test_a_single_worker_publishes_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR")
    async with anyio.create_task_group() as tasks:
        protected = ProtectedApp(tasks)
        await protected.request("/1").end()
        assert protected.middleware.service._publishing._at is None
        assert list(directory.iterdir()) == []  # noqa: ASYNC240 - a small one
