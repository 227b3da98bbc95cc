"""Rows: Kubernetes' own samples to the byte, and turns for the event loop between portions."""

import json

import anyio
import pytest

from apf_middleware.asgi.admin.dumps import _LEVELS, _QUEUES, _REQUESTS
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
