"""Real workers share ten seats of a backend that counts who is in flight, while some of them are killed."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.fleet_load import SEATS, Backend, Load, backend_and_environment, loaded
from tests.support.command_line import run_apf
from tests.support.servers import Server, serve
from tests.support.until import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextlib.asynccontextmanager
async def fleet(
    folder: Path, *, workers: int = 4, lease_s: int = 20, patience_s: int = 10
) -> AsyncIterator[tuple[Server, Backend, Load]]:
    """Run the workers under load; a worker that doesn't answer uvicorn for ``patience_s`` is replaced.

    Leases are long, so that none ends on a busy machine unless a test wants that.
    """
    folder.chmod(0o700)  # noqa: ASYNC240
    settings = f"{{name: shop, directory: {folder}, lease: {lease_s}s}}"
    async with backend_and_environment(folder, settings) as (backend, variables):
        options = ["--workers", str(workers), "--timeout-worker-healthcheck", str(patience_s)]
        options += ["--timeout-keep-alive", "60"]
        variables["APF_RUNTIME_DIR"] = str(folder)  # for the command line
        start = serve("tests.e2e.fleet_member:app", *options, environment=variables, ready="/metrics")
        server = await asyncio.to_thread(start.__enter__)
        try:
            # Connections are kept for a while, so workers that start later would get none at first.
            await until(lambda: len(members_of(folder)) == workers)
            async with loaded([server.url]) as load:
                yield server, backend, load
        finally:
            await asyncio.to_thread(start.__exit__, None, None, None)


def allocator_of(folder: Path) -> int:
    """Return the process that holds the lock of the latest epoch."""
    path = max(
        (path for path in (folder / "fleet-shop").glob("epoch-*") if path.suffix != ".sock"),
        key=lambda one: int(one.name.partition("-")[2]),
    )
    inode = path.stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[5].endswith(f":{inode}"):
            return int(fields[4])
    raise AssertionError(f"nobody holds {path}")


def members_of(folder: Path) -> set[int]:
    return {int(path.name.split("-")[1]) for path in (folder / "fleet-shop").glob("member-*")}


async def quiet(load: Load) -> None:
    """Wait until no request has ended for a while."""
    async with asyncio.timeout(60):
        done = -1
        while load.statuses[200] != done:
            done = load.statuses[200]
            await asyncio.sleep(0.5)


async def test_the_budget_holds_while_workers_and_the_allocator_are_killed(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (server, backend, load):
        await until(lambda: load.statuses[200] > 300 and backend.in_flight == SEATS)
        assert len(members_of(tmp_path)) == 4
        for is_allocator in (True, False):
            allocator = allocator_of(tmp_path)
            victim = allocator if is_allocator else min(members_of(tmp_path) - {allocator})
            done, broken = backend.finished, load.broken
            os.kill(victim, signal.SIGKILL)
            await until(lambda: backend.finished > done + 300 and backend.in_flight == SEATS)  # noqa: B023
            await until(lambda: len(members_of(tmp_path) - {victim}) == 4)  # noqa: B023 - uvicorn starts another one
            assert load.broken - broken <= 30
        assert backend.most == SEATS
        # A worker that uvicorn ends or restarts meanwhile may refuse as many as a killed one breaks.
        assert load.statuses.total() - load.statuses[200] <= 30, f"{load.statuses} {server.output()}"


async def test_a_stopped_worker_loses_its_seats_and_returns(tmp_path: Path) -> None:
    """Its requests are in flight at the backend while it is stopped, so the seats that others get are beyond these."""
    async with fleet(tmp_path, lease_s=2, patience_s=100) as (_, backend, load):
        # Which workers accept the connections is random, and one may accept all of the first ones. So each must have
        # served some requests before the busiest one is stopped.
        await until(lambda: len(load.workers) == 4 and min(load.workers.values()) > 50)
        others = members_of(tmp_path) - {allocator_of(tmp_path)}
        victim = max(others, key=lambda worker: load.workers[str(worker)])
        os.kill(victim, signal.SIGSTOP)
        try:
            await asyncio.sleep(2.5)  # longer than the lease
            done = backend.finished
            await until(lambda: backend.finished > done + 200)
        finally:
            os.kill(victim, signal.SIGCONT)
        served = load.workers[str(victim)]
        await until(lambda: load.workers[str(victim)] > served + 20)
        # Requests that had their seats when the worker was stopped may call the backend when it goes on; the other
        # three workers had at least one seat each then.
        assert backend.most <= SEATS + SEATS - 3
        assert load.statuses.keys() == {200}
        assert min(load.served.values()) > 0


async def test_the_command_line_shows_all_members_and_operates_all(tmp_path: Path) -> None:
    async def apf(*arguments: str) -> str:
        result = await asyncio.to_thread(run_apf, "queue", *arguments, APF_RUNTIME_DIR=str(tmp_path))
        assert result.returncode == 0, result.stderr
        return result.stdout

    async with fleet(tmp_path, workers=2) as (_, _, load):
        await until(lambda: load.statuses[200] > 100)
        text = await apf("top", "--fleet", "-n", "0.1")
        assert text.count("allocator") == 1, text
        assert all(str(process) in text for process in members_of(tmp_path))
        await apf("operate", "web", "--action", "pause")
        await quiet(load)
        done = load.statuses[200]
        await apf("operate", "web", "--action", "open")
        await until(lambda: load.statuses[200] > done + 100)
