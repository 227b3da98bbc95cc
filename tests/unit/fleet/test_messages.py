"""Messages come back as they were written, and anything else is refused with a clear error."""

import json
from dataclasses import replace

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget, SeatRange
from apf_middleware.fleet.messages import (
    FlowTable,
    Grant,
    Leave,
    LevelPart,
    LevelSum,
    LevelUsage,
    MemberRow,
    Message,
    Report,
    Taken,
    read_message,
    write,
)
from apf_middleware.fleet.notice_board import Notice
from apf_middleware.fleet.samples import DurationSamples

REPORT = Report(
    "17-ab",
    number=9,
    epoch=2,
    sequence=5,
    seats=4,
    in_use=3,
    configuration="c0ffee",
    levels={
        "web": LevelUsage(3, 120, 2, FlowTable.of({2**64 - 1: 7, 5: 1}, {2**64 - 1: 65536, 5: 131072}), 4, 6, 2),
        "idle": LevelUsage(),
    },
)
GRANT = Grant(
    2, 6, 9, 4, 3, is_contended=True, levels={"web": LevelPart(4096, 2, {2**64 - 1: 32768}), "b": LevelPart(1)}
)


NOTICES = {"queue:batch": Notice(3, "one", "{}"), "reload": Notice(1, "two", "")}
BUDGET = Budget(
    40,
    {"web": SeatDemand(3, 0, 4, 12, "all"), "batch": SeatDemand(0, 0), "all": SeatDemand(3, 0, 4)},
    {"web": 3, "batch": -2},
    floor=5,
)


@pytest.mark.parametrize(
    "message",
    [
        REPORT,
        GRANT,
        Report("m", 1, 0, 0, 0, 0),
        Report("m", 1, 0, 0, 0, 0, "c", {}, 2**53 - 1, BUDGET, "d", NOTICES),
        Grant(1, 1, 1, 0),
        Grant(1, 1, 1, 0, configuration="c", board="d", notices=NOTICES),
        Grant(1, 1, 1, 0, rows=(MemberRow("a", 4, 3, 9, 10**9, "c"), MemberRow("b", 0, 0, 0, 0, "")), allocator="a"),
        Report("m", 1, 0, 0, 0, 0, asks=True),
        Report("m", 1, 0, 0, 0, 0, maxes={"web": 3, "batch": 0}, exceeded={"batch": 1}),
        Report("m", 1, 0, 0, 0, 0, leaving={"old": SeatDemand(3, 0, 1, 2, "p"), "web": SeatDemand(1, 0)}),
        Grant(1, 1, 1, 0, most=8),
        Grant(1, 1, 1, 0, maxes={"web": 3, "batch": 0}, scarce=("batch",)),
        Report("m", 1, 0, 0, 0, 0, samples=DurationSamples(3, (7, 2**64 - 1), (10**9, 5), (0, 20), (0, 3))),
        Report("m", 1, 0, 0, 0, 0, samples=DurationSamples()),
        Report("m", 1, 0, 0, 0, 0, budget=replace(BUDGET, bounds=SeatRange(5, 400))),
        Grant(1, 1, 1, 0, total=40, claimed=36, reason="grew"),
        Grant(1, 1, 1, 0, sums={"web": LevelSum(3, 9, 120, FlowTable.of({2**64 - 1: 7})), "idle": LevelSum(0, 0, 0)}),
        Leave("m"),
        Taken(7),
    ],
)
def test_messages_come_back_as_they_were(message: Message) -> None:
    assert read_message(write(message)) == message


def test_the_wrong_messages_below_have_one_defect_each() -> None:
    report = read_message(b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1],[2],[1]],0,0,0]}}')
    assert isinstance(report, Report)
    grant = read_message(b'{"v":2,"n":[1,2,3,4,5,6],"b":true,"c":"","l":{"web":[1,0,[[5],[6]]]}}')
    assert isinstance(grant, Grant)


def test_the_demand_of_a_level_is_that_of_all_its_flows() -> None:
    assert REPORT.levels["web"].demand == 14


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"7",
        b"null",
        b"{}",
        b'{"v":2}',
        b'{"v":2,"end":7}',
        b'{"v":2,"taken":-1}',
        b'{"v":2,"taken":"7"}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"d":7}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"s":[0,[1],[2],[3],[4]]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"s":[0,[1],[2],[3],[-1]]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"s":[0,[1],[-2],[3],[0]]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"s":[0,[1],[2],[-3],[0]]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"s":[0,[1],[2],[3],[]]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"s":[-1,[],[],[],[]]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"budget":[5,{},{},[6,5]]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"budget":[5,{},{},[5]]}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":true,"c":"","l":{},"t":[1,2]}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":true,"c":"","l":{},"t":[1,-2,"grew"]}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":true,"c":"","l":{},"t":[1,2,3]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"notices":{"k":[1,"a"]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"notices":{"k":[-1,"a",""]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"notices":{"k":[1,"a",7]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"budget":null}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"budget":[1,{},{"web":"high"}]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{},"budget":[1,{"web":[1,0,-2,null]},{}]}',
        b'{"v":2,"m":"x"}',
        b'{"v":2,"m":"x","n":[1,2,3,4],"c":"","l":{}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,-5,6],"c":"","l":{}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5.5,6],"c":"","l":{}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,true,6],"c":"","l":{}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,99999999999999999999,6],"c":"","l":{}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":[]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1],[2],[-1]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1],[-2],[1]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[-1],[2],[1]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1,1],[2],[1]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1],[2]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1],[2],[true]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1],[2.0],[1]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1,2],[1,true],[1,1]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1,2,3],[5,1,4.5],[1,1,1]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[18446744073709551616],[2],[1]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1],[9007199254740993],[1]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[1],[1],[9007199254740993]],0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,{"1":2},0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,"abc",0,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[],[],[]],0,4,0]}}',  # seats of no flow
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[],[],[]],-1,0,0]}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,NaN,6],"c":"","l":{}}',
        b'{"v":2,"m":"x","n":"123456","c":"","l":{}}',
        b'{"v":2,"m":null,"n":[1,2,3,4,5,6],"c":"","l":{}}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":7,"l":{}}',
        b'{"v":true,"m":7,"n":[1,2,3,4,5,6],"c":"","l":{}}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":false,"c":"","l":{"web":[1,2]}}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":false,"c":"","l":{"web":[1,-2,[[],[]]]}}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":false,"c":"","l":{"web":[1,2,[[1]]]}}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":false,"c":"","l":{"web":[1,2,[[1],[0]]]}}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":false,"c":"","l":{"web":[1,2,[[-1],[1]]]}}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":0,"c":"","l":{}}',
        b'{"v":2,"n":[1,2,3,4],"b":false,"c":"","l":{}}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":false,"c":"","l":null}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":false,"c":"","l":{},"x":{"web":-1}}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":false,"c":"","l":{},"x":["web"]}',
        b'{"v":2,"n":[1,2,3,4,5,6],"b":false,"c":"","l":{},"x":{"web":1},"y":[7]}',
        b'{"v":2,"m":"x","n":[1,2,3,4,5,6],"c":"","l":{"web":[1,2,3,[[],[],[]],0,0,-1]}}',
        b"[" * 100_000,
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidValueError):
        read_message(data)


def test_another_version_is_refused_with_the_next_step() -> None:
    data = json.loads(write(GRANT)) | {"v": 3}
    with pytest.raises(InvalidValueError, match=r"version of a message is 3, but it must be 2\. Upgrade all members"):
        read_message(json.dumps(data).encode())


def test_every_cut_or_changed_byte_is_read_or_refused() -> None:
    """Nothing else is raised, whatever arrives."""
    for message in (REPORT, GRANT):
        data = write(message)
        cases = [data[:length] for length in range(len(data))]
        cases += [data[:at] + byte + data[at + 1 :] for at in range(len(data)) for byte in (b"0", b"]", b"-", b'"')]
        for case in cases:
            try:
                found = read_message(case)
            except InvalidValueError:
                continue
            assert read_message(write(found)) == found
