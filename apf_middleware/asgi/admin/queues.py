"""Named queues: requests are checked here, and carried out by `runtime.named_queues.NamedQueues`.

A change is made in one worker only, and is lost when that worker ends. To change all workers, ask each of them, as the
command line does; to keep a change, write it into the files.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from apf_middleware.asgi.admin.documents import (
    DeletedQueue,
    FieldError,
    HoldingGate,
    NamedQueueDocument,
    NamedQueueList,
    Nothing,
    QueueChange,
    QueueClosing,
    QueueCreation,
    WaitingDocument,
    WaitingFlow,
)
from apf_middleware.asgi.admin.formatting import Formatter
from apf_middleware.asgi.admin.observation import View, observe_adaptive
from apf_middleware.asgi.admin.protocol import (
    AdminError,
    AdminRequest,
    Handler,
    answer_json,
    invalid,
    log_refusal,
    read_body,
    signature,
    worker_of,
)
from apf_middleware.asgi.responses import Answer
from apf_middleware.asgi.scope import query_of
from apf_middleware.exceptions import QueueError, QueueInvalidError, QueueNotFoundError
from apf_middleware.fairqueuing import Ticket
from apf_middleware.runtime.queues import Drift, QueueAction
from apf_middleware.snapshots import NamedQueueSnapshot, ParkedRequest

__all__ = ["MOST_FLOWS", "QueueResource"]

_SECOND: Final = 10**9
_FOREVER_S: Final = 2.0**53  # longer than a queue accepts

_YES: Final = frozenset({"1", "true"})
_FIELD_NAMES: Final = {"wait_limit_ns": "wait_limit"}

MOST_FLOWS: Final = 100
"""The maximum number of waiting flows that are listed."""


class QueueResource:
    """The named queues of ``view``'s controller; ``app`` is the name of the server."""

    def __init__(self, view: View, app: str) -> None:
        self._view = view
        self._queues = view.queues
        self._app = app

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """Return the name of the queue at this path, and the handlers by method."""
        match steps:
            case []:
                return "", {"GET": self._list, "POST": self._create}
            case [name] if name:
                return name, {"GET": self._get, "PATCH": self._update, "DELETE": self._delete}
            case [name, "waiting"]:
                return name, {"GET": self._waiting}
            case [name, ("open" | "close" | "pause") as action]:
                return name, {"POST": partial(self._operate, QueueAction(action))}
        return None

    # Looking

    async def _list(self, request: AdminRequest) -> Answer:
        found = tuple(self._queues.list())
        worker, adaptive, shared = worker_of(self._app), observe_adaptive(self._view), self._view.fleet is not None
        if query_of(request.scope).get("documents") not in _YES:
            brief = NamedQueueList(worker, found, adaptive=adaptive, shared=shared)
            return answer_json(brief, without=("documents", "drift"))
        documents = tuple(one for status in found for one in self._queues.document(status.name))
        return answer_json(NamedQueueList(worker, found, documents, self._queues.drift(), adaptive, shared))

    async def _get(self, request: AdminRequest) -> Answer:
        with _as_admin_error(request, "get"):
            status = self._queues.status(request.name)
        return self._answer(status, tuple(one for one in self._queues.drift() if one.queue == request.name))

    async def _waiting(self, request: AdminRequest) -> Answer:
        with _as_admin_error(request, "get"):
            status = self._queues.status(request.name)
        controller = self._view.controller
        levels = [controller.levels[name] for name in (status.children or (request.name,)) if name in controller.levels]
        tickets = [ticket for runtime in levels for queue in runtime.shared.queueset.deck for ticket in queue]
        names = {runtime.name for runtime in levels}
        parked = [] if controller.gates is None else [one for one in controller.gates.parked() if one.level in names]
        now = controller.now()
        document = WaitingDocument(
            worker_of(self._app),
            request.name,
            waiting=len(tickets),
            seats=sum(ticket.width for ticket in tickets),
            oldest=_seconds(now - min(ticket.arrived_at for ticket in tickets)) if tickets else 0.0,
            flows=_waiting_flows(tickets, now),
            gates=_holding_gates(parked),
        )
        return answer_json(document)

    # Changing

    async def _create(self, request: AdminRequest) -> Answer:
        changes = _in_ns(await read_body(request, QueueCreation))
        name = str(changes.pop("name"))
        with _as_admin_error(request, "create", name):
            status = self._queues.create(name, by=signature(request.actor), **changes)
        return self._answer(status, status_code=201)

    async def _update(self, request: AdminRequest) -> Answer:
        changes = _in_ns(await read_body(request, QueueChange))
        if not changes:
            raise invalid([FieldError("*", None, f"something must change: {', '.join(QueueChange.model_fields)}")])
        with _as_admin_error(request, "update"):
            status = self._queues.update(request.name, by=signature(request.actor), **changes)
        return self._answer(status)

    async def _operate(self, action: QueueAction, request: AdminRequest) -> Answer:
        body = await read_body(request, QueueClosing if action is QueueAction.CLOSE else Nothing)
        with _as_admin_error(request, action.value):
            mode = str(body.get("mode", "drain"))
            status = self._queues.operate(request.name, action.value, mode=mode, by=signature(request.actor))
        return self._answer(status)

    async def _delete(self, request: AdminRequest) -> Answer:
        cascade = query_of(request.scope).get("cascade") in _YES
        with _as_admin_error(request, "delete"):
            self._queues.delete(request.name, cascade=cascade, by=signature(request.actor))
        return answer_json(DeletedQueue(worker_of(self._app), request.name))

    def _answer(
        self, status: NamedQueueSnapshot, drift: tuple[Drift, ...] | None = None, *, status_code: int = 200
    ) -> Answer:
        documents, shared = tuple(self._queues.document(status.name)), self._view.fleet is not None
        document = NamedQueueDocument(worker_of(self._app), status, documents, drift or (), shared)
        return answer_json(document, without=("drift",) if drift is None else (), status=status_code)


@contextmanager
def _as_admin_error(request: AdminRequest, action: str, name: str = "") -> Iterator[None]:
    """Turn the errors of named queues into answers, and log refused changes."""
    try:
        yield
    except QueueError as error:
        if action != "get":
            log_refusal(request.actor, f"{action} queue {name or request.name}", str(error))
        raise _admin_error(error) from None


def _admin_error(error: QueueError) -> AdminError:
    if isinstance(error, QueueNotFoundError):
        return AdminError(404, error.kind, f"There is no queue {error.queue!r}.")
    if isinstance(error, QueueInvalidError):
        return invalid([FieldError(_FIELD_NAMES.get(name, name), value, rule) for name, value, rule in error.problems])
    return AdminError(409, error.kind, f"{error}.")


def _in_ns(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes with times in nanoseconds, as `NamedQueues` expects them."""
    if "wait_limit" in changes:
        seconds = changes.pop("wait_limit")
        changes["wait_limit_ns"] = None if seconds is None else round(min(seconds, _FOREVER_S) * _SECOND)
    return changes


def _waiting_flows(tickets: list[Ticket], now: int) -> tuple[WaitingFlow, ...]:
    numbers: Counter[str] = Counter()
    seats: Counter[str] = Counter()
    oldest: dict[str, int] = {}
    for ticket in tickets:
        flow = ticket.flow
        numbers[flow] += 1
        seats[flow] += ticket.width
        oldest[flow] = min(oldest.get(flow, now), ticket.arrived_at)
    return tuple(
        WaitingFlow(flow, number, seats[flow], _seconds(now - oldest[flow]))
        for flow, number in numbers.most_common(MOST_FLOWS)
    )


def _holding_gates(parked: Iterable[ParkedRequest]) -> tuple[HoldingGate, ...]:
    """Return the gates that hold some of the requests, those that hold the most first."""
    found: dict[tuple[str, str | None], list[float]] = {}
    for one in parked:
        found.setdefault((one.gate, Formatter.key(one.key)), []).append(one.parked_for)
    return tuple(
        HoldingGate(gate, key, len(times), round(max(times), 3))
        for (gate, key), times in sorted(found.items(), key=lambda item: -len(item[1]))[:MOST_FLOWS]
    )


def _seconds(duration_ns: int) -> float:
    return round(duration_ns / _SECOND, 3)
