"""The benchmarks on the wire run and say what they promise, and what they measure with can be trusted.

Their figures are for people: nothing is asserted about speed. But a load that leaves out what it should have sent, or a
row that refuses what it should have served, would make figures look better than the truth; that must be noticed.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.config import load, read
from apf_middleware.config.build import derive_limits
from benchmarks import overhead, overload, rejections
from benchmarks.load import LoadReport, percentile, run_load
from benchmarks.rejections import Burst
from benchmarks.wire_apps import WRAPPERS, holding, ours
from benchmarks.wire_backend import Backend, Scoreboard
from benchmarks.wire_callers import LoadPlan, MouseSample
from benchmarks.wire_client import Connection, request_bytes
from benchmarks.wire_configs import CONFIGS, write_config
from benchmarks.wire_rejection import reject
from benchmarks.wire_requests import Receiver, RequestMaker
from benchmarks.wire_round_robin import RoundRobin
from tests.support.servers import Kind, ServerStartError, busy_seconds, cores, cpu_seconds, is_runnable, pinned, serve
from tests.support.virtual_loop import VirtualLoop

ROOT = Path(__file__).parents[2]

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False, timeout=110
    )


def rows(*arguments: str) -> list[dict[str, Any]]:
    result = run(*arguments, "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    return cast("list[dict[str, Any]]", json.loads(result.stdout))


# In process


def test_what_a_request_costs_more_is_measured_in_all_rows() -> None:
    measured = rows("benchmarks.overhead", "--rounds", "2", "--requests", "256", "--crowd", "300")

    assert [(row["mode"], row["row"]) for row in measured] == [(row.mode, row.name) for row in overhead.choose("")]
    assert {row["mode"] for row in measured} == {"alone", "contended", "memory"}
    for row in measured:
        is_bare = row["row"].startswith("bare")
        if row["mode"] == "memory":
            assert (row["added_bytes"] == 0) is is_bare
            assert row["bytes_per_request"] > 500
        else:
            assert row["added_us_q1"] <= row["added_us"] <= row["added_us_q3"]
            assert (row["added_us"] == 0) is is_bare
            assert row["us_per_request"] > 0


def test_a_row_is_always_measured_beside_the_bare_one_of_its_kind() -> None:
    assert [(row.mode, row.name) for row in overhead.choose("alone noop-starlette")] == [
        ("alone", "bare-starlette"),
        ("alone", "noop-starlette"),
    ]
    assert overhead.choose("nothing like it") == []


def test_a_row_that_refuses_requests_is_not_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] != "/items/000000007":
                await app(scope, receive, send)

        return call

    monkeypatch.setattr(overhead, "WRAPPERS", {**WRAPPERS, "refuse": refuse})
    listed = [overhead.OverheadRow("alone", "bare"), overhead.OverheadRow("alone", "refuse", wrapper="refuse")]

    with pytest.raises(RuntimeError, match="row refuse: 7 of 128 requests did not reach the app"):
        asyncio.run(overhead.measure_times(listed, tmp_path, 1, 128))


def test_requests_that_do_not_wait_are_not_measured(tmp_path: Path) -> None:
    listed = [overhead.OverheadRow("memory", "bare"), overhead.OverheadRow("memory", "noop", wrapper="noop")]

    with pytest.raises(RuntimeError, match="row noop: 50 requests reached the app, but 10 should have"):
        asyncio.run(overhead.measure_bytes(listed, tmp_path, crowd=50))


def test_nothing_in_a_scope_was_there_before() -> None:
    maker = RequestMaker(token=True)
    (one, _), (two, _) = maker.make(21)[::20]  # the paths come again after 20

    assert one["path"] == two["path"]
    assert not [key for key in ("headers", "state", "extensions", "raw_path", "path", "client") if one[key] is two[key]]
    assert not [pair for pair in zip(one["headers"], two["headers"], strict=True) if pair[0][1] is pair[1][1]]


def test_new_paths_and_callers_are_never_repeated() -> None:
    maker = RequestMaker(new_paths=True, new_callers=True)
    scopes = [scope for scope, _ in (*maker.make(1_000), *maker.make(1_000))]

    assert len({scope["path"] for scope in scopes}) == 2_000
    assert len({scope["client"][0].rpartition(".")[0] for scope in scopes}) == 2_000
    assert len({maker._address(count) for count in range(500_000)}) == 500_000


def test_a_persistent_client_sends_only_its_request() -> None:
    async def receive_twice() -> None:
        receiver = Receiver()
        assert (await receiver())["type"] == "http.request"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receiver(), 0.01)

    asyncio.run(receive_twice())


@pytest.mark.parametrize("name", CONFIGS)
def test_our_configurations_are_valid_and_odd_in_nothing(name: str, tmp_path: Path) -> None:
    reading = read([write_config(name, tmp_path)])

    assert list(reading.problems) == []


@pytest.mark.parametrize("name", ["contended", "memory", "overload", "overload-small-hand", "rejections", "unqueued"])
def test_our_level_has_the_ten_seats_that_the_others_have(name: str, tmp_path: Path) -> None:
    limits = derive_limits(load(write_config(name, tmp_path)))["tenants"]

    assert (limits.nominal, limits.max) == (10, 10)


# Overload


def test_an_overload_is_measured() -> None:
    arguments = ("--rounds", "1", "--seconds", "0.6", "--warm-up", "0.2", "--connections", "40", "--only", "ours$")
    [measured] = rows("benchmarks.overload", *arguments)

    assert {"row", "rounds", "mice_ok_pct_min", *LoadReport.__dataclass_fields__} <= set(measured)
    assert measured["row"] == "ours"
    assert 5 < measured["mice_offered"] < 110
    assert 0 < measured["mice_ok_pct"] <= 100
    assert 20 <= measured["mice_p50_ms"] <= measured["mice_p99_ms"] == measured["mice_p99_all_ms"]
    assert 20 < measured["elephant_goodput"] < measured["total_goodput"] < 520
    assert measured["peak_in_flight"] == 10
    assert 0 <= measured["wasted_pct"] < 100
    assert 0 < measured["server_cpu"] < 1
    assert 0 < measured["load_cpu"] < 1


def test_each_configuration_before_the_backend_is_a_row() -> None:
    names = [row.name for row in overload.ROWS]

    assert names[:5] == ["bare", "uvicorn-limit-10", "uvicorn-limit-100", "semaphore", "semaphore-reject"]
    assert names[5:] == ["round-robin", "ours-sharded", "ours", "ours-small-hand"]


def test_the_scenarios_are_an_elephant_a_larger_one_and_five(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []

    def measure_once(row: overload.OverloadRow, plan: dict[str, Any]) -> dict[str, Any]:
        plans.append((row.name, plan["elephants"], plan["connections"]))
        cpu = 0.3 if row.name == "ours" else 0.2 if plan["seed"] == 1 else 0.1
        return dict.fromkeys(LoadReport.__dataclass_fields__, 1) | {"server_cpu": cpu}

    monkeypatch.setattr(overload, "_measure_once", measure_once)
    monkeypatch.setattr(sys, "argv", ["overload", "--scenarios", "--json", "--rounds=2", "--only=^(ours|round-robin)$"])
    printed: list[Any] = []
    monkeypatch.setattr(overload, "print_json", printed.extend)
    overload.main()

    assert plans == [(row, *counts) for counts in ((1, 200), (1, 600), (5, 200)) for row in ("round-robin", "ours") * 2]
    assert [(row["elephants"], row["connections"]) for row in printed[::2]] == [(1, 200), (1, 600), (5, 200)]
    assert [row["cpu_ratio"] for row in printed[:2]] == [1, pytest.approx((1.5 + 3) / 2)]


# Round robin


class Turns:
    """A round robin with one seat, in front of an app that notes its requests and ends them in order."""

    def __init__(self, seats: int = 1) -> None:
        self.served: list[str] = []
        self.rejected: list[str] = []
        self._may_end: list[asyncio.Event] = []
        self.app = RoundRobin(self._answer, seats)

    async def _answer(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        self.served.append(scope["path"])
        self._may_end.append(event := asyncio.Event())
        await event.wait()

    def ask(self, tenant: str, name: str = "") -> asyncio.Task[None]:
        path = name or tenant

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 429
                self.rejected.append(path)

        async def receive() -> Message:
            raise AssertionError("nothing is received")

        scope = {"path": path, "headers": [(b"host", b"x"), (b"x-tenant", tenant.encode())]}
        return asyncio.ensure_future(self.app(scope, receive, send))

    async def end(self, number: int = 1) -> None:
        for _ in range(number):
            self._may_end.pop(0).set()
            await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def in_virtual_time(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(play())


def test_tenants_take_turns() -> None:
    async def play() -> None:
        turns = Turns()
        tasks = [turns.ask(tenant, f"{tenant}{n}") for tenant, number in (("a", 4), ("b", 2)) for n in range(number)]
        await settle()
        await turns.end(6)
        assert turns.served == ["a0", "a1", "b0", "a2", "b1", "a3"]
        tasks.append(turns.ask("b"))
        await settle()
        assert turns.served[-1] == "b", "the seat is free again"
        await turns.end()
        await asyncio.gather(*tasks)

    in_virtual_time(play)


def test_a_tenant_has_fifty_places_and_waits_less_than_a_second() -> None:
    async def play() -> None:
        turns = Turns()
        tasks = [turns.ask("a", f"a{number}") for number in range(53)]
        await settle()
        assert turns.rejected == ["a51", "a52"]
        tasks.append(turns.ask("b"))
        await asyncio.sleep(0.79)
        assert len(turns.rejected) == 2
        await asyncio.sleep(0.02)
        assert len(turns.rejected) == 53
        tasks.append(turns.ask("b", "later"))
        await turns.end(2)
        assert turns.served == ["a0", "later"], "requests that have given up are passed over"
        await asyncio.gather(*tasks)

    in_virtual_time(play)


def test_a_cancelled_request_passes_its_seat_on() -> None:
    async def play() -> None:
        turns = Turns()
        tasks = [turns.ask(tenant) for tenant in "abc"]
        await settle()
        turns._may_end.pop(0).set()
        await asyncio.sleep(0)  # the seat has been given to b, whose task hasn't run yet
        tasks[1].cancel()
        await settle()
        assert turns.served == ["a", "c"]
        await turns.end()
        await asyncio.gather(*tasks, return_exceptions=True)

    in_virtual_time(play)


# Rejections


@pytest.mark.skipif(shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk isn't installed")
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux tells how long a thread has run")
def test_the_cost_of_rejections_is_compared_with_that_of_a_semaphore() -> None:
    measured = rows("benchmarks.rejections", "--turns", "1", "--only", "ours")

    assert [row["row"] for row in measured] == ["semaphore-reject", "ours", "ours-sharded", "ours-unqueued"]
    assert measured[0]["ratio"] == 1
    for row in measured:
        assert row["turns"] == 1
        assert row["requests"] > 500
        assert 1 < row["cpu_us_q1"] <= row["cpu_us"] <= row["cpu_us_q3"] < 5000


def test_costs_are_compared_in_the_same_turn() -> None:
    base = [Burst(100, cpu_us) for cpu_us in (10.0, 20.0, 40.0)]
    found = rejections.compare([Burst(50, 15.0), Burst(50, 50.0), Burst(50, 80.0)], base)

    assert (found["cpu_us"], found["ratio"]) == (50, 2)
    assert (found["ratio_q1"], found["ratio_q3"]) == (1.75, 2.25)
    assert (found["requests"], found["turns"]) == (150, 3)


def test_rejections_that_differ_are_not_compared() -> None:
    alike = (429, {"a": "1"}, b"x" * 250)
    rejections.require_same({"one": alike, "other": (429, {"a": "2"}, b"y" * 260)})

    for other in ((429, {"a": "1", "b": "2"}, b"x" * 250), (429, {"a": "1"}, b"x" * 500)):
        with pytest.raises(RuntimeError, match="different answers"):
            rejections.require_same({"one": alike, "other": other})
    with pytest.raises(RuntimeError, match="row other answered 200, not 429"):
        rejections.require_same({"one": alike, "other": (200, {"a": "1"}, b"x" * 250)})


def test_our_rejection_is_the_one_that_the_others_send(tmp_path: Path) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def overflow() -> None:
        app = ours(holding, write_config("rejections", tmp_path))
        scopes = [{**scope, "path": "/hold"} for scope, _ in RequestMaker(tenants=True).make(16 * 61)][::16]
        receiver = Receiver()
        await receiver()
        tasks = [asyncio.ensure_future(app(scope, receiver, send)) for scope in scopes]
        await settle()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await reject(send)

    asyncio.run(overflow())
    mine, its = sent[:2], sent[2:]
    assert [name for name, _ in mine[0]["headers"]] == [name for name, _ in its[0]["headers"]]
    first, second = (json.loads(messages[1]["body"]) for messages in (mine, its))
    assert {**first, "retry_after": 1} == second


def test_only_requests_that_are_to_be_held_are() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    asyncio.run(holding({"path": "/"}, receive, send))
    assert sent[0]["status"] == 200
    asyncio.run(holding({"path": "/hold"}, receive, send))
    assert len(sent) == 2


def load_against(
    answer: Answer, scoreboard: Scoreboard | None = None, **changes: float
) -> tuple[LoadReport, Sequence[MouseSample]]:
    """Run the load of one elephant with 5 connections and 4 mice on a server with these answers, in virtual time."""
    writers = []

    async def answer_and_remember(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await answer(reader, writer)

    async def play() -> tuple[LoadReport, Sequence[MouseSample]]:
        server = await asyncio.start_server(answer_and_remember, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            few: dict[str, Any] = {"connections": 5, "mice": 4, "seconds": 0.4, "warm_up": 0.05, "deadline": 0.15}
            came_of_it = await run_load(LoadPlan(port, **few | {"rate": 40.0} | changes), scoreboard, os.getpid())
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)
        return came_of_it

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play())


def answering(text: bytes, delay: float = 0.005) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(delay)
                writer.write(text)
                if b"close" in text:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    return answer


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy"


def test_all_requests_are_served_by_a_responsive_server() -> None:
    report, samples = load_against(answering(OK))

    assert (report.mice_ok_pct, report.refused, report.timed_out, report.lost) == (100, 0, 0, 0)
    assert report.mice_p50_ms == 5
    assert report.elephant_goodput == pytest.approx(5 / 0.005, rel=0.01)  # five closed loops
    assert 25 <= len(samples) <= 110  # 4 mice, 40 requests a second, 0.4 seconds: 64 on average
    assert {sample.mouse for sample in samples} == {0, 1, 2, 3}
    assert all(0 <= sample.due < 0.4 for sample in samples)


def test_the_peak_is_that_of_the_window_and_abandoned_work_is_wasted(tmp_path: Path) -> None:
    scoreboard = Scoreboard(tmp_path / "board")
    before = [scoreboard.begin() for _ in range(30)]
    for _ in before:
        scoreboard.end()

    def waste() -> None:
        scoreboard.begin()
        scoreboard.end()

    async def answer_and_waste(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waste()
        await answering(BUSY)(reader, writer)

    report, _ = load_against(answer_and_waste, scoreboard, seconds=0.2, deadline=0.05)

    assert (report.peak_in_flight, report.wasted_pct) == (1, 100)  # 30 was before
    assert report.server_cpu is not None


def test_a_rejection_is_a_failure_after_which_a_heavy_client_pauses() -> None:
    report, _ = load_against(answering(BUSY))

    assert (report.mice_ok_pct, report.total_goodput, report.timed_out) == (0, 0, 0)
    assert (report.mice_p50_ms, report.mice_p99_all_ms) == (None, 150)
    # At least one on each connection; at the most, after pauses of 50 ms, and all that the mice ask.
    assert 5 < report.refused < 5 / 0.055 + 275


def test_without_an_answer_callers_give_up_after_the_deadline() -> None:
    report, samples = load_against(answering(OK, delay=0.4))

    assert (report.mice_ok_pct, report.refused) == (0, 0)
    assert len(samples) > 20  # mice don't wait for one another
    assert report.timed_out > 5 / 0.15 * 0.5


def test_connections_that_break_are_counted_apart() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    report, _ = load_against(hang_up)

    assert (report.mice_ok_pct, report.refused, report.timed_out) == (0, 0, 0)
    assert report.lost > 50


def test_latency_counts_from_when_a_request_was_due_also_if_all_stood_still() -> None:
    """The whole process stands still for 0.2 s, and the load with it; who was due then has waited all the same."""
    stalls = iter([0.2])

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.call_later(0.15, lambda: loop.stall(next(stalls, 0)))
        await answering(OK)(reader, writer)

    report, samples = load_against(answer, deadline=0.4)
    waited = [sample.latency for sample in samples if sample.latency is not None and sample.latency > 0.1]

    assert len(waited) > 5  # those due in the first half of that time: 16 on average
    assert report.late_p99_ms is not None
    assert report.late_p99_ms > 100


def test_light_clients_send_requests_at_seeded_times_regardless_of_outcomes() -> None:
    plans = ((OK, 7), (BUSY, 7), (OK, 8))
    one, two, other = (load_against(answering(text), seconds=0.1, deadline=0.05, seed=seed)[1] for text, seed in plans)

    def due(samples: Sequence[MouseSample]) -> list[tuple[int, float]]:
        return sorted((sample.mouse, round(sample.due, 6)) for sample in samples)

    assert due(one) == due(two) != due(other)


def test_a_percentile_is_a_value_that_occurred() -> None:
    assert [percentile(range(1, 101), percent) for percent in (0, 50, 99, 100)] == [1, 50, 99, 100]
    assert percentile([3.0], 99) == 3.0
    assert percentile([], 50) is None


def test_the_backend_slows_down_beyond_its_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scoreboard, delays = Scoreboard(tmp_path / "board"), list[float]()
    end = asyncio.Event()

    async def sleep(seconds: float) -> None:
        delays.append(seconds)
        await end.wait()

    async def send(_message: object) -> None:
        pass

    async def call() -> None:
        app = Backend(scoreboard)
        calls = [asyncio.ensure_future(app({}, Receiver(), send)) for _ in range(40)]
        await asyncio.wait(calls, timeout=0)
        assert Scoreboard(scoreboard.path).in_flight == 40  # as another process sees it
        end.set()
        await asyncio.gather(*calls)

    monkeypatch.setattr("benchmarks.wire_backend.asyncio.sleep", sleep)
    asyncio.run(call())

    assert delays[:10] == [0.02] * 10
    assert delays[19] == pytest.approx(0.02 * 2**1.5)
    assert delays[39] == pytest.approx(0.02 * 4**1.5)
    assert (scoreboard.in_flight, scoreboard.peak, scoreboard.finished) == (0, 40, 40)
    scoreboard.forget_peak()
    assert scoreboard.peak == 0


# What they measure with


class Owner:
    """Writes down what a connection tells."""

    def __init__(self) -> None:
        self.heard: list[int | str] = []

    def answered(self, _connection: Connection, status: int) -> None:
        self.heard.append(status)

    def lost(self, _connection: Connection) -> None:
        self.heard.append("lost")


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def abort(self) -> None:
        self.aborted = True


def asked() -> tuple[Connection, Owner, Wire]:
    connection, owner, wire = Connection(set()), Owner(), Wire()
    connection.connection_made(wire)
    connection.ask(request_bytes("/x", X_Tenant="a"), owner)
    assert wire.written == b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Tenant: a\r\n\r\n"
    return connection, owner, wire


CHUNKED = b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


@pytest.mark.parametrize(("text", "status"), [(OK, 200), (CHUNKED, 201), (b"HTTP/1.1 204 No Content\r\n\r\n", 204)])
def test_a_response_is_complete_with_its_last_byte_in_however_many_parts(text: bytes, status: int) -> None:
    for cut in range(1, len(text)):
        connection, owner, _ = asked()
        connection.data_received(text[:cut])
        assert (owner.heard, connection.is_waiting) == ([], True)
        connection.data_received(text[cut:])
        assert (owner.heard, connection.is_waiting, connection.reusable) == ([status], False, True)


def test_a_connection_that_the_server_will_close_is_not_used_again() -> None:
    connection, owner, wire = asked()
    connection.data_received(BUSY)

    assert (owner.heard, connection.reusable, wire.aborted) == ([503], False, True)


def test_a_response_without_length_ends_with_its_connection() -> None:
    connection, owner, _ = asked()
    connection.data_received(b"HTTP/1.1 200 OK\r\nServer: old\r\n\r\nok")
    connection.connection_lost(None)

    assert owner.heard == [200, "lost"]
    assert not connection.is_waiting


def test_an_abandoned_connection_delivers_nothing() -> None:
    connection, owner, wire = asked()
    connection.abandon()
    connection.data_received(OK)
    connection.connection_lost(None)

    assert (owner.heard, wire.aborted) == ([], True)


@pytest.mark.parametrize("kind", ["hypercorn", "granian"])
def test_other_servers_than_uvicorn_answer_too_and_leave_nothing_behind(kind: Kind) -> None:
    with serve("benchmarks.wire_apps:raw", kind=kind) as server:
        assert cpu_seconds(server.pid) is not None

    assert server.process.returncode is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_server_that_does_not_start_shows_what_it_wrote() -> None:
    with (
        pytest.raises(ServerStartError, match=r"ended with status 1:\n(.*\n)*.*No module named 'nowhere'"),
        serve("nowhere.at_all:app"),
    ):
        pass


def test_what_a_server_has_started_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "with_child.py").write_text(
        "import subprocess\n"
        "from benchmarks.wire_apps import raw\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))\n"
    )
    with serve("with_child:raw", environment={"PYTHONPATH": str(tmp_path)}):
        child = Path("/proc") / (tmp_path / "pid").read_text()
        assert (child / "stat").read_text().split()[2] == "S"

    deadline = time.monotonic() + 60
    while child.exists() and (child / "stat").read_text().split()[2] not in {"Z", "X"}:
        assert time.monotonic() < deadline, f"{child} lives on"
        time.sleep(0.01)


def test_the_processor_time_of_a_process_is_that_of_its_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for thread, taken in ((7, 1_500_000_001), (8, 500_000_000)):
        folder = tmp_path / "7" / "task" / str(thread)
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(f"{taken} 12345 6\n")
    monkeypatch.setattr("tests.support.servers._PROC", tmp_path)

    assert cpu_seconds(7) == 2.000000001


@pytest.mark.parametrize("schedstat", ["0 0 0\n", None], ids=["zeros", "missing"])
def test_processor_time_is_counted_in_ticks_where_the_scheduler_keeps_none(
    schedstat: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "7" / "task" / "7"
    folder.mkdir(parents=True)
    if schedstat:
        (folder / "schedstat").write_text(schedstat)
    (tmp_path / "7" / "stat").write_text("7 (a name) of) S " + " ".join(map(str, range(4, 40))))
    monkeypatch.setattr("tests.support.servers._PROC", tmp_path)

    assert cpu_seconds(7) == (14 + 15) / os.sysconf("SC_CLK_TCK")  # fields 14 and 15 are those of user and system


def test_processor_time_is_not_known_where_the_system_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.support.servers._PROC", tmp_path)

    assert cpu_seconds(7) is None
    assert busy_seconds() is None


def test_a_process_that_waits_for_a_core_is_runnable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number, state in ((1, "R"), (2, "S")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "stat").write_text(f"{number} (R) R) {state} 1 2 3")
    monkeypatch.setattr("tests.support.servers._PROC", tmp_path)

    assert [is_runnable(number) for number in (1, 2, 3)] == [True, False, False]


def test_our_own_processor_time_grows_with_our_work() -> None:
    before, end = cpu_seconds(os.getpid()), time.process_time() + 0.05
    while time.process_time() < end:
        pass
    after = cpu_seconds(os.getpid())

    assert before is not None
    assert after is not None
    assert after - before > 0.03  # the last tick may not be counted yet


def test_what_starts_while_pinned_runs_there_and_we_run_where_we_ran() -> None:
    both = cores()
    if both is None:
        pytest.skip("there is but one core")
    program = "import os; print(*os.sched_getaffinity(0))"
    before = os.sched_getaffinity(0)
    with pinned(both[1]):
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout.split() == [str(both[1])]
    assert os.sched_getaffinity(0) == before
