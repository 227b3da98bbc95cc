"""``apf queue`` as an operator runs it, against a server with two workers under load."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import httpx
import pytest

from apf_middleware.asgi.admin.documents import DeletedQueue, NamedQueueDocument
from apf_middleware.cli.control.workers import SocketWorker, ask_all, page
from apf_middleware.config.sockets import find_sockets, is_refused
from tests.e2e.shop import Shop, open_shop
from tests.e2e.terminal import CURSOR_ON, ROOT, terminal
from tests.support.command_line import Outcome

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

DONE, REFUSED, USAGE, UNREACHED, PARTIAL = 0, 1, 2, 3, 4


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop() as opened:
        yield opened


@pytest.fixture
def batch(shop: Shop) -> Iterator[Shop]:
    """Return the shop with a queue ``batch`` in both workers."""
    assert shop.apf("create", "batch", "--weight", 2, "--max", 3).returncode == DONE
    yield shop
    shop.apf("delete", "batch", "--cascade")


def rows(result: Outcome) -> dict[str, dict[str, str]]:
    """Return the table, by name and column."""
    head, *lines = [line.split() for line in result.stdout.splitlines()]
    return {line[0]: dict(zip(head, line, strict=True)) for line in lines}


def alone(shop: Shop, method: str, *steps: str, order: dict[str, object] | None = None) -> str:
    """Change a queue in one worker alone, and return the name of the worker."""
    worker = SocketWorker(find_sockets(shop.sockets)[0])
    kind: type[object] = DeletedQueue if method == "DELETE" else NamedQueueDocument
    [reply] = ask_all([worker], method, page(*steps), kind, order, timeout=60)
    assert reply.is_done
    return worker.name


# Under load


@dataclass
class Load:
    """Clients that send requests all the time; each response is recorded with the times of request and response."""

    client: httpx.AsyncClient
    queue: str
    heard: list[tuple[tuple[float, float], int, str, str]] = field(default_factory=list)

    async def ask(self) -> None:
        while True:
            asked_at = time.monotonic()
            response = await self.client.get("/hold?ms=15", headers={"X-Queue": self.queue})
            reason = response.json()["reason"] if response.status_code != 200 else ""
            level = response.headers.get("x-apf-priority-level", "")
            self.heard.append(((asked_at, time.monotonic()), response.status_code, reason, level))
            await asyncio.sleep(0.03)

    async def hears(self, *, level: str = "", status: int = 200) -> None:
        """Wait until eight later requests, probably of both workers, have this level and status."""
        since = time.monotonic()
        async with asyncio.timeout(60):
            while sum(at[0] > since and code == status and level in {"", on} for at, code, _, on in self.heard) < 8:  # noqa: ASYNC110 - clients set no event
                await asyncio.sleep(0.02)


async def test_operating_a_queue_under_load_causes_only_the_rejections_of_its_state(shop: Shop) -> None:
    async def apf(*arguments: str) -> None:
        run = shop.run_apf if arguments[0] in {"create", "delete"} else shop.apf
        result = await asyncio.to_thread(run, *arguments)
        assert (result.returncode, result.stderr) == (DONE, "")

    limits = httpx.Limits(max_keepalive_connections=0)  # so that both workers get some of them
    async with httpx.AsyncClient(base_url=shop.server.url, limits=limits, timeout=60, trust_env=False) as client:
        web, adhoc = Load(client, "web"), Load(client, "adhoc")
        tasks = [asyncio.create_task(load.ask()) for load in (web, adhoc) for _ in range(4)]
        await adhoc.hears(level="web")  # there is no such queue, so the requests use the default
        await apf("create", "adhoc", "--weight", "4", "--max", "1")  # so that some wait
        await adhoc.hears(level="adhoc")
        await apf("operate", "adhoc", "--action", "pause")
        waiting = await asyncio.to_thread(shop.apf, "get", "adhoc", "-o", "json")
        await apf("operate", "adhoc", "--action", "open")
        await adhoc.hears(level="adhoc")
        closed_at = time.monotonic()
        await apf("operate", "adhoc", "--action", "close", "--mode", "drain")
        await adhoc.hears(status=503)
        await apf("operate", "adhoc", "--action", "open")
        opened_at = time.monotonic()
        await adhoc.hears(level="adhoc")
        closed_again_at = time.monotonic()
        await apf("operate", "adhoc", "--action", "close")
        await adhoc.hears(status=503)
        await apf("delete", "adhoc")
        deleted_at = time.monotonic()
        await adhoc.hears(level="web")
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert all(isinstance(one, asyncio.CancelledError) for one in ended)
    assert {status for _, status, _, _ in web.heard} == {200}, "other queues are unaffected"
    assert json.loads(waiting.stdout)["queue"]["state"] == "Paused"
    refused = [(*times, reason) for times, status, reason, _ in adhoc.heard if status != 200]
    assert {reason for _, _, reason in refused} <= {"queue-closing", "queue-closed"}
    assert refused
    closed = [(closed_at, opened_at), (closed_again_at, deleted_at)]
    for asked, answered, _ in refused:
        assert any(asked < end and answered > begin for begin, end in closed), "refused although the queue was open"


# Output


def test_a_queue_is_shown_with_the_sums_of_both_workers(batch: Shop) -> None:
    listed, got, viewed = batch.apf("list"), batch.apf("get", "batch"), batch.apf("view", "batch")

    assert (listed.returncode, listed.stderr) == (DONE, "")
    row = rows(listed)["batch"]
    assert (row["PARENT"], row["STATE"], row["WEIGHT"], row["MAX"], row["REJECTED"]) == ("root", "Open", "2", "6", "0")
    assert got.stdout == viewed.stdout
    assert f"workers:   {batch.pids[0]} Open, {batch.pids[1]} Open" in got.stdout
    listing = json.loads(batch.apf("list", "-o", "json").stdout)
    assert [one["answered"] for one in listing["workers"]] == [True, True]
    assert {one["name"] for one in listing["queues"]} == {"batch", "catch-all", "exempt", "web"}


def test_what_is_listed_as_yaml_can_be_committed_and_then_nothing_differs(batch: Shop) -> None:
    before = batch.apf("diff", batch.config)
    committed = batch.folder / "committed.yaml"
    server = batch.config.read_text().partition("---")[0]
    committed.write_text(server + batch.apf("list", "-o", "yaml").stdout)

    assert (before.returncode, before.stdout) == (REFUSED, "batch: only live\n")
    assert (batch.apf("diff", committed).returncode, batch.apf("diff", committed).stdout) == (DONE, "")
    assert batch.apf("update", "batch", "--weight", 7, "--max", "none").returncode == DONE
    drift = json.loads(batch.apf("diff", committed, "-o", "json").stdout)["drift"]
    assert {(one["field"], one["file"], one["live"]) for one in drift} == {
        ("spec.shares", 2, 7),
        ("spec.maxSeats", 3, None),
    }


def test_workers_that_disagree_are_named(batch: Shop) -> None:
    odd = alone(batch, "POST", "queues", "batch", "pause", order={})
    result = batch.apf("list")

    assert result.returncode == PARTIAL
    assert rows(result)["batch"]["STATE"] == "Mixed"
    assert rows(result)["web"]["STATE"] == "Open"
    assert f"batch is Paused in worker {odd}" in result.stderr
    assert batch.apf("operate", "batch", "-a", "open").returncode == DONE, "the same for all ends it"
    assert batch.apf("list").returncode == DONE


def test_what_only_some_workers_do_is_a_partial_failure_and_says_which(shop: Shop) -> None:
    first = alone(shop, "POST", "queues", order={"name": "half"})
    created = shop.apf("create", "half")
    gone = shop.apf("delete", "half", "--cascade")

    assert created.returncode == PARTIAL
    assert f"worker {first}: queue 'half': there is a queue of this name already." in created.stderr
    assert (gone.returncode, gone.stdout) == (DONE, "deleted half\n")


def test_a_worker_that_does_not_answer_is_unknown_and_the_other_is_operated(batch: Shop) -> None:
    stopped = batch.pids[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        listed = batch.apf("list", "--timeout", 2)
        paused = batch.apf("operate", "batch", "-a", "pause", "--timeout", 2)
    finally:
        os.kill(stopped, signal.SIGCONT)

    assert (listed.returncode, rows(listed)["batch"]["STATE"]) == (PARTIAL, "Unknown")
    assert f"worker {stopped}: it didn't answer in time; raise --timeout to wait longer" in listed.stderr
    assert paused.returncode == PARTIAL
    assert f"worker {stopped}: it didn't answer" in paused.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("operate",), USAGE, "Missing argument"),
        (("operate", "web"), USAGE, "Missing option '--action'"),
        (("operate", "web", "--action", ""), USAGE, "is not one of"),
        (("operate", "web", "--action", "explode"), USAGE, "is not one of"),
        (("operate", "web", "--action", "open", "--mode", "shed"), USAGE, "only --action close has a mode"),
        (("update", "web"), USAGE, "nothing to change: give --weight"),
        (("update", "web", "--weight", "0"), USAGE, "greater than or equal to 1"),
        (("update", "web", "--max", "many"), USAGE, "must be a number of seats or none"),
        (("update", "web", "--wait-limit", "long"), USAGE, "must be a duration of more than 0"),
        (("create",), USAGE, "Missing argument"),
        (("create", "web"), REFUSED, "there is a queue of this name already"),
        (("create", "We b"), REFUSED, "name: it must be a DNS name"),
        (("create", "x", "--min", "3", "--max", "1"), REFUSED, "it must not exceed the max"),
        (("get", "nobody"), REFUSED, "There is no queue 'nobody'"),
        (("get", "../configuration"), REFUSED, "Here are dump_priority_levels"),
        (("delete", "web"), REFUSED, "it is the default queue"),
        (("delete", "exempt"), REFUSED, "can't be deleted"),
        (("list", "--app", "other"), UNREACHED, "no worker of other has a socket"),
        (("list", "--runtime-dir", "/nowhere"), UNREACHED, "there is no such directory"),
        (("list", "--server", "localhost"), USAGE, "isn't like http://127.0.0.1:8000"),
        (("list", "--server", "http://127.0.0.1:1", "--token-file", "/nowhere"), USAGE, "it can't be read"),
        (("diff", "/nowhere"), USAGE, "there is no /nowhere"),
    ],
)
def test_what_cannot_be_done_ends_with_a_status_and_a_reason(
    shop: Shop, arguments: tuple[str, ...], status: int, said: str
) -> None:
    result = shop.apf(*arguments)

    assert (result.returncode, result.stdout) == (status, "")
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_close_open_and_update_succeed(batch: Shop) -> None:
    for arguments, state in (
        (("operate", "batch", "--action", "close"), "Closed"),
        (("update", "batch", "--weight", 5, "--wait-limit", "2s", "--priority", "-3", "--not-reclaimable"), "Closed"),
        (("update", "batch", "--wait-limit", "none", "--dequeue-strategy", "fifo"), "Closed"),
        (("operate", "batch", "--action", "open"), "Open"),
    ):
        result = batch.apf(*arguments)
        assert (result.returncode, rows(result)["batch"]["STATE"]) == (DONE, state)


# Gates


async def test_a_closed_gate_keeps_requests_waiting(shop: Shop) -> None:
    def gates(*arguments: str) -> Outcome:
        return shop.apf(*arguments, group="gate")

    def parked() -> int:
        return sum(one["parked"] for one in json.loads(gates("list", "-o", "json").stdout)["gates"])

    closed = gates("close", "db")
    async with httpx.AsyncClient(base_url=shop.server.url, timeout=60, trust_env=False) as client:
        asked = [asyncio.create_task(client.get("/who", headers={"X-User": str(number)})) for number in range(6)]
        async with asyncio.timeout(60):
            while parked() < 6:  # noqa: ASYNC110 - workers don't tell
                await asyncio.sleep(0.02)
        listed, shown = gates("list"), shop.apf("get", "web")
        kicked = gates("kick", "db")
        still = parked()
        opened = gates("open", "db")
        answers = await asyncio.gather(*asked)

    assert (closed.returncode, closed.stderr) == (DONE, "")
    assert " ".join(closed.stdout.splitlines()[0].split()) == (
        "GATE KEY STATE PARKED OLDEST ACQUIRED/LIMIT EVENTS RESCUES"
    )
    assert listed.stdout.splitlines()[1].split()[0] == "db"
    assert "held" in listed.stdout
    assert "6 pending" in shown.stdout
    assert "gates:     db 6, oldest" in shown.stdout
    assert (kicked.stdout, still) == ("kicked 6\n", 6), "closed is closed"
    assert opened.returncode == DONE
    assert [answer.status_code for answer in answers] == [200] * 6
    assert gates("open", "nobody").returncode == REFUSED


# By URL


def test_over_http_a_token_has_the_rights_of_its_groups(batch: Shop) -> None:
    url, token = batch.server.url, batch.folder / "token"
    token.write_text("secret-l\n")
    looked = batch.apf("list", "--server", url, "--token-file", token)
    refused = batch.apf("operate", "batch", "-a", "pause", "--server", url, "--token-file", token)
    done = batch.apf("update", "web", "--weight", 8, "--server", url, APF_TOKEN="secret-o")  # noqa: S106 - a test's
    unknown = batch.apf("list", "--server", url)

    assert (looked.returncode, "batch" in rows(looked)) == (DONE, True)
    assert refused.returncode == UNREACHED
    assert "Authorized to view, but not to change anything: spec.admin.operators" in refused.stderr
    assert (done.returncode, "web" in rows(done)) == (DONE, True)
    assert unknown.returncode == UNREACHED
    assert "Authentication is required: give --token-file, the variable APF_TOKEN, or --header" in unknown.stderr


# Live


def test_the_live_screen_shows_queues_and_obeys_keys_that_are_confirmed(batch: Shop) -> None:
    with terminal("apf_middleware", "queue", "top", "-n", "0.2", APF_RUNTIME_DIR=str(batch.sockets)) as screen:
        screen.read_until("q quit")
        assert "apf top: shop, 2 workers" in screen.text
        assert "\x1b[?1049h" in screen.text, "what was in the terminal before comes back afterwards"
        screen.type("p")
        screen.read_until("pause batch? y yes, any other key no")
        screen.type("n")
        screen.read_until("pause batch: no")
        screen.type("c")
        screen.read_until("close batch? d drain")
        screen.type("s")
        screen.read_until("close batch: done by 2 of 2 workers")
        screen.read_until("Closed")
        assert rows(batch.apf("list"))["batch"]["STATE"] == "Closed"
        screen.type("\x1b[B")
        screen.type("p")
        screen.read_until("pause catch-all?")
        screen.type("\x1b")
        screen.read_until("pause catch-all: no")
        screen.type("q")
        assert screen.read_to_end() == 0
    assert screen.text.endswith(f"{CURSOR_ON}\x1b[?1049l")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "kill"])
def test_the_live_screen_restores_the_terminal_after_a_signal(batch: Shop, number: signal.Signals) -> None:
    with terminal("apf_middleware", "queue", "top", APF_RUNTIME_DIR=str(batch.sockets)) as screen:
        screen.read_until("q quit")
        screen.process.send_signal(number)
        assert screen.read_to_end() == 0
    assert screen.text.endswith(f"{CURSOR_ON}\x1b[?1049l")


def test_the_end_of_the_live_screen_waits_for_commands(batch: Shop) -> None:
    with terminal("apf_middleware", "queue", "top", APF_RUNTIME_DIR=str(batch.sockets)) as screen:
        screen.read_until("q quit")
        screen.type("p")
        screen.read_until("pause batch?")
        screen.type("yq")
        assert screen.read_to_end() == DONE

    assert rows(batch.apf("list"))["batch"]["STATE"] == "Paused"


def test_the_end_of_the_live_screen_does_not_wait_for_a_worker_that_hangs(batch: Shop) -> None:
    hanging = batch.sockets / "shop.999999.sock"
    with (
        terminal("apf_middleware", "queue", "top", "--timeout", "600", APF_RUNTIME_DIR=str(batch.sockets)) as screen,
        ExitStack() as stack,
    ):
        screen.read_until("q quit")
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(hanging))
        stack.callback(hanging.unlink)
        listener.listen()
        # Before it asks, the command only looks whether the worker listens.
        while not stack.enter_context(listener.accept()[0]).recv(65536):
            pass
        screen.type("q")
        assert screen.read_to_end() == DONE


def test_without_a_terminal_the_live_screen_is_one_table(batch: Shop) -> None:
    result = batch.apf("top", "-n", "0.1")

    assert (result.returncode, result.stderr) == (DONE, "")
    title, head, *lines = result.stdout.splitlines()
    assert title == "apf top: shop, 2 workers"
    assert head.split()[0] == "NAME"
    assert [line.split()[0] for line in lines] == ["batch", "catch-all", "exempt", "web"]
    assert {line.split()[-1] for line in lines} == {"0.0"}, "two looks were taken"


def test_a_terminal_that_cannot_show_the_live_screen_gets_one_table(shop: Shop) -> None:
    variables = {"APF_RUNTIME_DIR": str(shop.sockets), "TERM": "dumb"}
    with terminal("apf_middleware", "queue", "top", "-n", "0.1", **variables) as screen:
        assert screen.read_to_end() == DONE

    assert "apf: a terminal of the kind TERM=dumb can't show a screen, so this is one table" in screen.text
    assert "apf top: shop, 2 workers" in screen.text
    assert "catch-all" in screen.text
    assert "\x1b" not in screen.text


@pytest.mark.parametrize(
    ("command", "closing"),
    [("list", "<&-"), ("list", ">&-"), ("list", "2>&-"), ("top -n 0.1", "<&- >&- 2>&-")],
)
def test_standard_streams_may_be_closed(shop: Shop, command: str, closing: str) -> None:
    line = f"{sys.executable} -m apf_middleware queue {command} --runtime-dir {shop.sockets} {closing}"
    result = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)  # noqa: S607

    assert (result.returncode, result.stderr) == (DONE, "")
    assert ("catch-all" in result.stdout) == (">&-" not in closing.replace("2>&-", ""))


def test_the_list_fits_into_a_terminal_of_80_columns(batch: Shop) -> None:
    with terminal("apf_middleware", "queue", "list", APF_RUNTIME_DIR=str(batch.sockets)) as screen:
        assert screen.read_to_end() == 0

    lines = screen.text.splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= 80
    assert {"NAME", "STATE", "USED", "MAX", "INQUEUE", "REJECTED"} <= set(lines[0].split())


# Permissions


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_only_the_owner_can_open_the_socket(shop: Shop) -> None:
    [path, _] = [one.path for one in find_sockets(shop.sockets)]
    for directory in (shop.folder, shop.sockets):  # with their own modes, other users couldn't even reach the socket
        directory.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as owner:
        owner.connect(str(path))
        os.seteuid(65534)
        try:
            with pytest.raises(PermissionError):
                stranger.connect(str(path))
        finally:
            os.seteuid(0)
            shop.sockets.chmod(0o700)


# Workers that come and go


def test_a_worker_that_was_killed_is_not_missed_once_another_has_its_place() -> None:
    with open_shop() as shop:
        first = find_sockets(shop.sockets)[0]
        os.kill(first.pid, signal.SIGKILL)
        until = time.monotonic() + 60
        while first.path.exists() and not is_refused(first.path):
            assert time.monotonic() < until
        while first.pid in shop.pids or len(shop.pids) < 2:
            assert shop.apf("list").returncode == DONE, "who is dead isn't asked"
            assert time.monotonic() < until
        result = shop.apf("get", "web")

        assert result.returncode == DONE
        assert str(first.pid) not in result.stdout


def test_a_server_on_trio_is_operated_in_the_same_way() -> None:
    with open_shop("--worker-class", "trio", kind="hypercorn", workers=1) as shop:
        assert rows(shop.apf("create", "batch", "--weight", 3))["batch"]["WEIGHT"] == "3"
        assert shop.apf("delete", "batch", "--cascade").returncode == DONE
        shop.server.stop()
        assert list(shop.sockets.iterdir()) == [], "it took its socket with it"
        gone = shop.apf("list")

    assert gone.returncode == UNREACHED
    assert "has a socket in" in gone.stderr
