"""Gates: answers, errors and the audit log."""

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from apf_middleware.asgi.admin.gates import MOST_PARKED
from apf_middleware.snapshots import GateSnapshot, ParkedRequest
from tests.support.admin_world import (
    LOUIS,
    DescribedAdmin,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def waiting(
    number: int, gate: str, key: Hashable = "shard-3", level: str = "crowd", parked_for: float = 2.5
) -> ParkedRequest:
    """Return a request that a gate holds."""
    return ParkedRequest(number, level, "everybody", "alice", gate, key, 1, "parked", parked_for, 3.0, 1)


@dataclass
class Board:
    """Gates that record the operations requested of them."""

    states: list[GateSnapshot] = field(default_factory=list)
    waiting: list[ParkedRequest] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def list(self) -> Sequence[GateSnapshot]:
        return self.states

    def parked(self, name: str | None = None) -> Sequence[ParkedRequest]:
        return [one for one in self.waiting if name in {None, one.gate}]

    def open(self, name: str) -> None:
        self.asked.append(("open", name))

    def close(self, name: str, for_: float | None = None) -> None:
        self.asked.append(("close", name, for_))

    def kick(self, name: str, request_id: int | None = None) -> int:
        self.asked.append(("kick", name, request_id))
        return len(self.parked(name))

    def __contains__(self, name: object) -> bool:
        return any(state.gate == name for state in self.states)


@pytest.fixture
def board() -> Board:
    return Board(
        [
            GateSnapshot("db", ("eu", 3), "capacity", "blocking", 2, 2.5, 3, 5, 7, 0),
            GateSnapshot("quota", "", "capacity", "passing", 0, None, None, None, 7, 0),
        ],
        [waiting(9, "db"), waiting(8, "db", key=None), waiting(7, "quota")],
    )


@pytest.fixture
def office(board: Board) -> DescribedAdmin:
    made = DescribedAdmin()
    made.controller.gates = board  # type: ignore[assignment]  # as a controller with gates has them
    return made


async def test_gates_are_listed_with_their_keys_as_text(office: DescribedAdmin) -> None:
    status, answer = await office.call("GET", "gates")

    assert status == 200
    assert [(one["gate"], one["key"], one["state"]) for one in answer["gates"]] == [
        ("db", "('eu', 3)", "blocking"),
        ("quota", None, "passing"),
    ]


async def test_no_key_makes_the_document_unreadable(office: DescribedAdmin, board: Board) -> None:
    """JSON may have half of a character, but few programs can read it."""
    board.states = [GateSnapshot("db", "\ud800 \U0001f40b", "capacity", "blocking", 1, 2.5, 3, 5, 7, 0)]
    _, answer = await office.call("GET", "gates")

    assert [one["key"] for one in answer["gates"]] == ["? \U0001f40b"]


async def test_a_gate_shows_the_requests_that_wait_for_it(office: DescribedAdmin, board: Board) -> None:
    _, answer = await office.call("GET", "gates/db")

    assert [one["gate"] for one in answer["gates"]] == ["db"]
    assert [(one["id"], one["key"]) for one in answer["parked"]] == [(8, None), (9, "shard-3")]
    board.waiting = [waiting(number, "db") for number in range(500)]
    assert len((await office.call("GET", "gates/db"))[1]["parked"]) == MOST_PARKED


@pytest.mark.parametrize(
    ("page", "order", "asked"),
    [
        ("gates/db/open", {}, ("open", "db")),
        ("gates/db/close", {}, ("close", "db", None)),
        ("gates/db/close", {"for": 10}, ("close", "db", 10.0)),
        ("gates/db/close", {"for": 0.5}, ("close", "db", 0.5)),
        ("gates/db/close", {"for": None}, ("close", "db", None)),
        ("gates/db/close", {"for": 1e9}, ("close", "db", 1e9)),
        ("gates/db/kick", {}, ("kick", "db", None)),
        ("gates/db/kick", {"request": 9}, ("kick", "db", 9)),
    ],
)
async def test_orders_reach_the_gates_and_the_log(
    office: DescribedAdmin,
    board: Board,
    page: str,
    order: object,
    asked: tuple[object, ...],
    *,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    status, answer = await office.call("POST", page, order)

    assert (status, board.asked) == (200, [asked])
    assert answer.get("kicked") == (2 if "kick" in page else None)
    [record] = caplog.records
    assert record.getMessage().startswith(f'apf.gate-operated by="olga (http)" gate="db" action="{asked[0]}"')


@pytest.mark.parametrize(
    ("method", "page", "order", "status"),
    [
        ("POST", "gates/nobody/open", {}, 404),
        ("POST", "gates/db/explode", {}, 404),
        ("GET", "gates/nobody", None, 404),
        ("GET", "gates/db/open", None, 405),
        ("DELETE", "gates/db", None, 405),
        ("POST", "gates/db/close", {"for": 0}, 422),
        ("POST", "gates/db/close", {"for": -1}, 422),
        ("POST", "gates/db/close", {"for": 1e300}, 422),
        ("POST", "gates/db/close", {"for": "10s"}, 422),
        ("POST", "gates/db/open", {"for": 1}, 422),
        ("POST", "gates/db/kick", {"request": 1.5}, 422),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    office: DescribedAdmin, board: Board, method: str, page: str, order: object, *, status: int
) -> None:
    assert (await office.call(method, page, order))[0] == status
    assert board.asked == []


async def test_readers_may_not_operate_gates(office: DescribedAdmin, board: Board) -> None:
    assert (await office.call("POST", "gates/db/close", {}, identity=LOUIS))[0] == 403
    assert (await office.call("GET", "gates", identity=LOUIS))[0] == 200
    assert board.asked == []


async def test_a_server_without_gates_has_none() -> None:
    office = DescribedAdmin()

    assert (await office.call("GET", "gates"))[1]["gates"] == []
    assert (await office.call("POST", "gates/db/open", {}))[0] == 404


async def test_a_queue_shows_the_gates_that_its_requests_wait_for(office: DescribedAdmin, board: Board) -> None:
    board.waiting.append(waiting(10, "db", level="exempt"))
    board.waiting.append(waiting(11, "db", parked_for=4.0))
    _, answer = await office.call("GET", "queues/crowd/waiting")

    assert answer["gates"] == [
        {"gate": "db", "key": "shard-3", "parked": 2, "oldest": 4.0},
        {"gate": "db", "key": None, "parked": 1, "oldest": 2.5},
        {"gate": "quota", "key": "shard-3", "parked": 1, "oldest": 2.5},
    ]
