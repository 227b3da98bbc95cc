"""Named queues over the wire: who asks for what is checked here, and what that means is for the book of queues.

A change concerns this worker alone, and is gone when it ends. Whoever wants it in all of them asks each, as the command
line does; whoever wants it to last writes it into the files.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from apf_middleware.asgi.admin.answers import FieldError, Trouble, shown_json
from apf_middleware.asgi.admin.desk import Ask, Handler, refused, signature, worker_of
from apf_middleware.asgi.admin.gates import Parked, key_text
from apf_middleware.asgi.admin.notes import View
from apf_middleware.asgi.admin.orders import Field, Fields, read_order, unfit
from apf_middleware.asgi.request import query_of
from apf_middleware.asgi.responses import Answer
from apf_middleware.exceptions import QueueConflictError, QueueError, QueueInvalidError, QueueNotFoundError
from apf_middleware.fairqueuing import Ticket
from apf_middleware.runtime import NamedQueues
from apf_middleware.runtime.queues import Drift, QueueAction, QueueStatus
from apf_middleware.runtime.queues.states import MODES

__all__ = ["CHANGES", "MOST_FLOWS", "QueueDesk"]

_SECOND: Final = 10**9

CHANGES: Final[Fields] = {
    "weight": Field(int, "a whole number"),
    "min": Field(int, "a whole number of seats"),
    "max": Field(int, "a whole number of seats, or null for no limit", nullable=True),
    "parent": Field(str, "the name of a queue, or null for none", nullable=True),
    "priority": Field(int, "a whole number"),
    "reclaimable": Field(bool, "true or false"),
    "dequeue_strategy": Field(str, "traverse or fifo", choices=("traverse", "fifo")),
    "wait_limit": Field(float, "seconds, or null for the server's", nullable=True, least=0),
}
"""What can be said of a queue."""

_CREATION: Final[Fields] = {"name": Field(str, "a DNS name"), **CHANGES}
_MODE: Final[Fields] = {"mode": Field(str, " or ".join(MODES), choices=MODES)}
_YES: Final = frozenset({"1", "true"})

MOST_FLOWS: Final = 100
"""Of those who wait, so many flows are named."""


class QueueDesk:
    """Answers about the queues of ``view``'s controller; ``app`` is what the server is called."""

    def __init__(self, view: View, app: str) -> None:
        self._view = view
        self._app = app

    @property
    def _book(self) -> NamedQueues:
        return self._view.controller.queues

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """By method, what can be asked at this path, and which queue's it is."""
        match steps:
            case []:
                return "", {"GET": self._list, "POST": self._create}
            case [name] if name:
                return name, {"GET": self._get, "PATCH": self._update, "DELETE": self._delete}
            case [name, "waiting"]:
                return name, {"GET": self._waiting}
            case [name, ("open" | "close" | "pause") as action]:
                return name, {"POST": _Operation(self, QueueAction(action))}
        return None

    # Looking

    async def _list(self, ask: Ask) -> Answer:
        found = self._book.list()
        told: dict[str, object] = {"worker": worker_of(self._app), "queues": list(map(_record, found))}
        if query_of(ask.scope).get("documents") in _YES:
            documents = [one for status in found for one in self._book.document(status.name)]
            told |= {"documents": documents, "drift": _drift(self._book.drift())}
        return shown_json(told)

    async def _get(self, ask: Ask) -> Answer:
        with _as_trouble(ask, "get"):
            status = self._book.status(ask.name)
        drift = [one for one in self._book.drift() if one.queue == ask.name]
        return shown_json(self._about(status) | {"drift": _drift(drift)})

    async def _waiting(self, ask: Ask) -> Answer:
        with _as_trouble(ask, "get"):
            status = self._book.status(ask.name)
        controller = self._view.controller
        now = controller.now()
        working = [controller.levels[name] for name in (status.children or (ask.name,)) if name in controller.levels]
        tickets = [ticket for runtime in working for queue in runtime.shared.queueset.deck for ticket in queue]
        gates = getattr(controller, "gates", None)  # a controller without gates has none
        names = {runtime.name for runtime in working}
        parked = [] if gates is None else [one for one in gates.parked() if one.level in names]
        told = {**_waiting(tickets, now), "gates": _holding(parked)}
        return shown_json({"worker": worker_of(self._app), "queue": ask.name, **told})

    # Changing

    async def _create(self, ask: Ask) -> Answer:
        order = _in_ns(await read_order(ask.scope, ask.receive, _CREATION, required=("name",)))
        name = str(order.pop("name"))
        with _as_trouble(ask, "create", name):
            status = self._book.create(name, by=signature(ask.who), **order)
        return shown_json(self._about(status), status=201)

    async def _update(self, ask: Ask) -> Answer:
        order = _in_ns(await read_order(ask.scope, ask.receive, CHANGES))
        if not order:
            raise unfit([FieldError("*", None, f"something must change: {', '.join(CHANGES)}")])
        with _as_trouble(ask, "update"):
            status = self._book.update(ask.name, by=signature(ask.who), **order)
        return shown_json(self._about(status))

    async def operate(self, ask: Ask, action: QueueAction) -> Answer:
        """Open, close or pause."""
        allowed = _MODE if action is QueueAction.CLOSE else {}
        order = await read_order(ask.scope, ask.receive, allowed)
        with _as_trouble(ask, action.value):
            mode = str(order.get("mode", "drain"))
            status = self._book.operate(ask.name, action.value, mode=mode, by=signature(ask.who))
        return shown_json(self._about(status))

    async def _delete(self, ask: Ask) -> Answer:
        with _as_trouble(ask, "delete"):
            self._book.delete(ask.name, cascade=query_of(ask.scope).get("cascade") in _YES, by=signature(ask.who))
        return shown_json({"worker": worker_of(self._app), "deleted": ask.name})

    def _about(self, status: QueueStatus) -> dict[str, object]:
        documents = list(self._book.document(status.name))
        return {"worker": worker_of(self._app), "queue": _record(status), "documents": documents}


class _Operation:
    """One action, to be asked of any queue."""

    __slots__ = ("_action", "_desk")

    def __init__(self, desk: QueueDesk, action: QueueAction) -> None:
        self._desk = desk
        self._action = action

    async def __call__(self, ask: Ask) -> Answer:
        return await self._desk.operate(ask, self._action)


class _as_trouble:  # noqa: N801 - it is used as a function
    """Turns what the book refuses into an answer, and writes down who was refused what."""

    def __init__(self, ask: Ask, what: str, name: str = "") -> None:
        self._ask = ask
        self._what = what
        self._name = name or ask.name

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, QueueError):
            if self._what != "get":
                refused(self._ask.who, f"{self._what} queue {self._name}", str(error))
            raise _trouble(error) from None


def _trouble(error: QueueError) -> Trouble:
    if isinstance(error, QueueNotFoundError):
        return Trouble(404, error.kind, "Not Found", f"There is no queue {error.queue!r}.")
    if isinstance(error, QueueConflictError):
        return Trouble(409, error.kind, "Conflict", f"{error}.")
    if isinstance(error, QueueInvalidError):
        return unfit([FieldError(_WRITTEN.get(field, field), value, rule) for field, value, rule in error.problems])
    return Trouble(409, error.kind, "Conflict", f"{error}.")


_WRITTEN: Final = {"wait_limit_ns": "wait_limit"}


def _in_ns(order: dict[str, Any]) -> dict[str, Any]:
    """The order with its times as the book wants them."""
    if "wait_limit" in order:
        seconds = order.pop("wait_limit")
        order["wait_limit_ns"] = None if seconds is None else round(seconds * _SECOND)
    return order


def _record(status: QueueStatus) -> dict[str, object]:
    return {field.name: getattr(status, field.name) for field in fields(status)}


def _drift(found: Iterable[Drift]) -> list[dict[str, object]]:
    return [{field.name: getattr(one, field.name) for field in fields(one)} for one in found]


def _waiting(tickets: list[Ticket], now: int) -> dict[str, object]:
    """Who waits, by flow."""
    numbers: Counter[str] = Counter()
    seats: Counter[str] = Counter()
    oldest: dict[str, int] = {}
    for ticket in tickets:
        flow = ticket.flow
        numbers[flow] += 1
        seats[flow] += ticket.width
        oldest[flow] = min(oldest.get(flow, now), ticket.arrived_at)
    return {
        "waiting": len(tickets),
        "seats": seats.total(),
        "oldest": _seconds(now - min(oldest.values())) if oldest else 0.0,
        "flows": [
            {"flow": flow, "waiting": number, "seats": seats[flow], "oldest": _seconds(now - oldest[flow])}
            for flow, number in numbers.most_common(MOST_FLOWS)
        ],
    }


def _holding(parked: Iterable[Parked]) -> list[dict[str, object]]:
    """Which gates keep how many of them waiting, and since when."""
    found: dict[tuple[str, str | None], list[float]] = {}
    for one in parked:
        found.setdefault((one.gate, key_text(one.key)), []).append(one.parked_for)
    return [
        {"gate": gate, "key": key, "parked": len(times), "oldest": round(max(times), 3)}
        for (gate, key), times in sorted(found.items(), key=lambda item: -len(item[1]))[:MOST_FLOWS]
    ]


def _seconds(duration_ns: int) -> float:
    return round(duration_ns / _SECOND, 3)
