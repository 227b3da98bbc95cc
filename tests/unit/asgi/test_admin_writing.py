"""How dumps are written: Kubernetes' own samples to the byte, Go's times and durations, and names that mean harm."""

import json

import anyio
import pytest

from apf_middleware.asgi.admin.dumps import _LEVELS, _QUEUES, _REQUESTS
from apf_middleware.asgi.admin.formatting import NEVER, Formatter, WallOffset, format_duration, printable
from apf_middleware.asgi.admin.rows import PORTION, Cells, write_json, write_text

pytestmark = pytest.mark.anyio

# Rows that Kubernetes wrote. Of its queues only the first is known; the second stands for the one, with a longer
# NextDispatchR, that must have made the first one's column as wide as it is.
LEVELS = """\
PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ExecutingRequests, DispatchedRequests, \
RejectedRequests, TimedoutRequests, CancelledRequests
catch-all,         0,            true,   false,       0,               0,                 1,                  \
0,                0,                0
workload-high,     0,            true,   false,       0,               0,                 500,                \
0,                0,                0
"""
QUEUES = """\
PriorityLevelName, Index,  PendingRequests, ExecutingRequests, SeatsInUse, NextDispatchR,   InitialSeatsSum, \
MaxSeatsSum, TotalWorkSum
workload-low,      14,     27,              0,                 0,          77.64342019ss,   270,             \
270,         0.81000000ss
workload-low,      24,     0,               26,                266,        4871.76000000ss, 0,               \
0,           0.00000000ss
"""
REQUESTS = """\
PriorityLevelName, FlowSchemaName,   QueueIndex, RequestIndexInQueue, FlowDistingsher,                        \
ArriveTime,                     InitialSeats, FinalSeats, AdditionalLatency, StartTime
exempt,            exempt,           -1,         -1,                  ,                                       \
2023-07-15T04:51:25.596404345Z, 1,            0,          0s,                2023-07-15T04:51:25.596404345Z
workload-low,      service-accounts, 14,         0,                   system:serviceaccount:default:loadtest, \
2023-07-18T00:12:51.386556253Z, 10,           0,          0s,                0001-01-01T00:00:00Z
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(("columns", "text"), [(_LEVELS, LEVELS), (_QUEUES, QUEUES), (_REQUESTS, REQUESTS)])
async def test_tables_are_spaced_as_upstreams_to_the_byte(columns: Cells, text: str) -> None:
    rows = [tuple(cell.strip() for cell in line.split(",")) for line in text.splitlines()[1:]]

    assert (await write_text(columns, rows, lambda row: row)).decode() == text


async def test_a_table_without_rows_is_its_head() -> None:
    assert await write_text(("A", "LongerThanEight", "C"), [], lambda row: row) == b"A,      LongerThanEight, C\n"


async def test_widths_are_counted_in_characters_over_all_portions() -> None:
    rows = [("é" * (9 if number == PORTION + 3 else 1), "x") for number in range(2 * PORTION)]
    lines = (await write_text(("A", "B"), rows, lambda row: row)).decode().splitlines()

    assert len(lines) == 2 * PORTION + 1
    assert lines[0] == "A,         B"
    assert lines[PORTION + 4] == "ééééééééé, x"
    assert {len(line) for line in lines} == {12}


@pytest.mark.parametrize("number", [0, 1, PORTION, PORTION + 1, 3 * PORTION])
async def test_json_is_whole_however_many_portions_it_is_written_in(number: int) -> None:
    written = await write_json("rows", list(range(number)), lambda rows: [{"number": row} for row in rows], seats=7)

    assert json.loads(written) == {"seats": 7, "rows": [{"number": row} for row in range(number)]}


@pytest.mark.parametrize("as_json", [True, False])
async def test_others_have_their_turn_between_portions(*, as_json: bool) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    rows = list(range(10 * PORTION))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        if as_json:
            await write_json("rows", rows, lambda rows: [{"row": row} for row in rows])
        else:
            await write_text(("A", "B"), rows, lambda row: (str(row), ""))
        tasks.cancel_scope.cancel()

    assert turns >= 10


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (999_999, "999.999µs"),
        (1_000_000, "1ms"),
        (3_250_000, "3.25ms"),
        (999_999_999, "999.999999ms"),
        (10**9, "1s"),
        (1_500_000_000, "1.5s"),
        (60 * 10**9, "1m0s"),
        (61_000_000_001, "1m1.000000001s"),
        (3600 * 10**9, "1h0m0s"),
        (100 * 3600 * 10**9 + 10**7, "100h0m0.01s"),
    ],
)
def test_durations_are_written_as_go_writes_them(duration: int, text: str) -> None:
    assert format_duration(duration) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "2023-07-15T04:51:25.596404345Z"),
        (-596_404_345, "2023-07-15T04:51:25Z"),
        (3_595_655, "2023-07-15T04:51:25.6Z"),
        (403_595_655, "2023-07-15T04:51:26Z"),
        (-596_404_346, "2023-07-15T04:51:24.999999999Z"),
    ],
)
def test_times_have_as_many_digits_as_they_need(at: int, text: str) -> None:
    formatter = Formatter(1_689_396_685_596_404_340)

    assert formatter.time(5 + at) == text


def test_gos_zero_time_is_never() -> None:
    assert NEVER == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("system:serviceaccount:default:x", "system:serviceaccount:default:x"),
        ("alice@example.com (a, b)", "alice@example.com (a, b)"),
        ("zoë 山", "zoë 山"),
        ("a\nexempt,\texempt", "a\\nexempt,\\texempt"),
        ("\x1b[2J\x7f\x9b", "\\x1b[2J\\x7f\\x9b"),
        ("\u202egnp.exe\u2028", "\\u202egnp.exe\\u2028"),
        ("\ud800", "\\ud800"),
        ("x" * 300, "x" * 256 + "..."),
        ("DOMAIN\\user", "DOMAIN\\user"),
        ("", ""),
    ],
)
def test_a_name_stays_on_its_line_and_speaks_to_no_terminal(name: str, text: str) -> None:
    assert printable(name) == text
    assert printable(name).isprintable()


def test_the_offset_of_the_wall_clock_stays_until_that_is_set() -> None:
    now, wall = iter(range(0, 100, 7)), iter([1000, 1007, 1300, 1000 + 10**9])
    offset = WallOffset(lambda: next(now), lambda: next(wall))

    assert [offset(), offset()] == [1000, 1000]
    assert offset() == 10**9 + 1000 - 21
