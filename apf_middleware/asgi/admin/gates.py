"""Gates: their states, the requests that they hold, and how an operator opens, closes and kicks them.

A gate that an operator closes holds requests while a dependency is away on purpose, say for a fail-over, instead of
letting them fail. As with all changes by the admin, the gate is closed in one worker only.
"""

from collections.abc import Mapping
from typing import Any, Final

from apf_middleware.asgi.admin.documents import (
    GateClosing,
    GateDocument,
    GateKick,
    GateList,
    Nothing,
)
from apf_middleware.asgi.admin.observation import View
from apf_middleware.asgi.admin.protocol import (
    AdminError,
    AdminRequest,
    Handler,
    answer_json,
    log_change,
    log_refusal,
    read_body,
    worker_of,
)
from apf_middleware.asgi.responses import Answer
from apf_middleware.gates import Gates
from apf_middleware.snapshots import GateSnapshot

__all__ = ["MOST_PARKED", "GateResource"]

MOST_PARKED: Final = 100
"""The maximum number of a gate's held requests that are listed."""


class GateResource:
    """The gates of ``view``'s controller, if it has any."""

    def __init__(self, view: View, app: str) -> None:
        self._view = view
        self._app = app

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """Return the name of the gate at this path, and the handlers by method."""
        match steps:
            case []:
                return "", {"GET": self._list}
            case [name] if name:
                return name, {"GET": self._get}
            case [name, "open"]:
                return name, {"POST": self._open}
            case [name, "close"]:
                return name, {"POST": self._close}
            case [name, "kick"]:
                return name, {"POST": self._kick}
        return None

    def _gate(self, request: AdminRequest, action: str) -> Gates:
        """Return the gates; raise AdminError if none has the name in the request."""
        gates = self._view.controller.gates
        if gates is None or request.name not in gates:
            if action != "get":
                log_refusal(request.actor, f"{action} gate {request.name}", "no such gate")
            raise AdminError(404, "not-found", f"There is no gate {request.name!r}.")
        return gates

    async def _list(self, _request: AdminRequest) -> Answer:
        gates = self._view.controller.gates
        found = () if gates is None else tuple(gates.list())
        return answer_json(GateList(worker_of(self._app), found), without=("kicked",))

    async def _get(self, request: AdminRequest) -> Answer:
        gates = self._gate(request, "get")
        parked = sorted(gates.parked(request.name), key=lambda one: one.id)[:MOST_PARKED]
        return answer_json(GateDocument(worker_of(self._app), _of_gate(gates, request.name), tuple(parked)))

    async def _open(self, request: AdminRequest) -> Answer:
        await read_body(request, Nothing)
        gates = self._gate(request, "open")
        gates.open(request.name)
        self._view.notices.tell_gate(request.name, None, is_open=True)
        return self._done(request, gates, "open")

    async def _close(self, request: AdminRequest) -> Answer:
        seconds = (await read_body(request, GateClosing)).get("for")
        gates = self._gate(request, "close")
        gates.close(request.name, seconds)
        self._view.notices.tell_gate(request.name, seconds, is_open=False)
        return self._done(request, gates, "close", seconds=seconds)

    async def _kick(self, request: AdminRequest) -> Answer:
        parked = (await read_body(request, GateKick)).get("request")
        gates = self._gate(request, "kick")
        kicked = gates.kick(request.name, None if parked is None else int(parked))
        return self._done(request, gates, "kick", request=parked, kicked=kicked)

    def _done(self, request: AdminRequest, gates: Gates, action: str, /, **facts: Any) -> Answer:  # noqa: ANN401 - logged
        log_change(request.actor, "gate-operated", gate=request.name, action=action, **facts)
        document = GateList(worker_of(self._app), _of_gate(gates, request.name), facts.get("kicked", 0))
        return answer_json(document, without=() if action == "kick" else ("kicked",))


def _of_gate(gates: Gates, name: str) -> tuple[GateSnapshot, ...]:
    return tuple(one for one in gates.list() if one.gate == name)
