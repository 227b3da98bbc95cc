"""Gates over the wire: which keep whom waiting, and how an operator opens, closes and kicks them.

A gate that is closed by hand keeps requests waiting while a dependency is away on purpose, say for a fail-over, instead
of letting them fail. Like all changes it concerns this worker alone.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, Protocol

from apf_middleware.asgi.admin.answers import Trouble, shown_json
from apf_middleware.asgi.admin.desk import Ask, Handler, changed, refused, worker_of
from apf_middleware.asgi.admin.notes import View
from apf_middleware.asgi.admin.orders import Field, Fields, read_order
from apf_middleware.asgi.responses import Answer

__all__ = ["MOST_PARKED", "GateBoard", "GateDesk", "GateState", "Parked", "key_text"]

MOST_PARKED: Final = 100
"""Of those who wait at a gate, so many are told one by one."""

_LONGEST_S: Final = 10**9
_STATUS: Final = ("gate", "key", "kind", "state", "parked", "oldest", "acquired", "limit", "events", "rescues")
_PARKED: Final = ("id", "level", "schema", "flow", "gate", "key", "cost", "stage", "parked_for", "waited", "attempts")
_CLOSING: Final[Fields] = {
    "for": Field(float, f"seconds, more than 0 and at most {_LONGEST_S}, or null", nullable=True, least=1e-3),
}
_KICK: Final[Fields] = {"request": Field(int, "the id of a request, or null for all", nullable=True)}


class GateState(Protocol):
    """One key of a gate where somebody waits, or a gate where nobody does."""

    @property
    def gate(self) -> str: ...
    @property
    def key(self) -> Hashable: ...


class Parked(Protocol):
    """One request that waits."""

    @property
    def id(self) -> int: ...
    @property
    def level(self) -> str: ...
    @property
    def gate(self) -> str: ...
    @property
    def key(self) -> Hashable: ...
    @property
    def parked_for(self) -> float: ...


class GateBoard(Protocol):
    """The gates of a server, as operators have them."""

    def list(self) -> Iterable[GateState]: ...
    def parked(self, name: str | None = None) -> Iterable[Parked]: ...
    def open(self, name: str) -> None: ...
    def close(self, name: str, for_: float | None = None) -> None: ...
    def kick(self, name: str, request_id: int | None = None) -> int: ...
    def __contains__(self, name: object) -> bool: ...


class GateDesk:
    """Answers about the gates of ``view``'s controller, if it has any."""

    def __init__(self, view: View, app: str) -> None:
        self._view = view
        self._app = app

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """By method, what can be asked at this path, and which gate's it is."""
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

    def _gates(self) -> GateBoard | None:
        gates: GateBoard | None = getattr(self._view.controller, "gates", None)
        return gates

    def _gate(self, ask: Ask, what: str) -> GateBoard:
        """The gates, if one has this name."""
        gates = self._gates()
        if gates is None or ask.name not in gates:
            if what != "get":
                refused(ask.who, f"{what} gate {ask.name}", "no such gate")
            raise Trouble(404, "not-found", "Not Found", f"There is no gate {ask.name!r}.")
        return gates

    async def _list(self, _ask: Ask) -> Answer:
        gates = self._gates()
        found = [] if gates is None else [_record(one, _STATUS) for one in gates.list()]
        return shown_json({"worker": worker_of(self._app), "gates": found})

    async def _get(self, ask: Ask) -> Answer:
        gates = self._gate(ask, "get")
        parked = sorted(gates.parked(ask.name), key=lambda one: one.id)[:MOST_PARKED]
        told = {"worker": worker_of(self._app), "gates": self._about(gates, ask.name)}
        return shown_json(told | {"parked": [_record(one, _PARKED) for one in parked]})

    async def _open(self, ask: Ask) -> Answer:
        await read_order(ask.scope, ask.receive, {})
        gates = self._gate(ask, "open")
        gates.open(ask.name)
        return self._done(ask, gates, "open")

    async def _close(self, ask: Ask) -> Answer:
        order = await read_order(ask.scope, ask.receive, _CLOSING)
        seconds = order.get("for")
        gates = self._gate(ask, "close")
        gates.close(ask.name, None if seconds is None else min(float(str(seconds)), _LONGEST_S))
        return self._done(ask, gates, "close", seconds=seconds)

    async def _kick(self, ask: Ask) -> Answer:
        order = await read_order(ask.scope, ask.receive, _KICK)
        request = order.get("request")
        gates = self._gate(ask, "kick")
        kicked = gates.kick(ask.name, None if request is None else int(str(request)))
        return self._done(ask, gates, "kick", request=request, kicked=kicked)

    def _done(self, ask: Ask, gates: GateBoard, what: str, **facts: object) -> Answer:
        changed(ask.who, "gate-operated", gate=ask.name, action=what, **facts)
        told = {"worker": worker_of(self._app), "gates": self._about(gates, ask.name)}
        return shown_json(told | ({"kicked": facts["kicked"]} if what == "kick" else {}))

    @staticmethod
    def _about(gates: GateBoard, name: str) -> list[dict[str, object]]:
        return [_record(one, _STATUS) for one in gates.list() if one.gate == name]


def _record(one: GateState | Parked, names: tuple[str, ...]) -> dict[str, object]:
    record: dict[str, Any] = {name: getattr(one, name) for name in names}
    record["key"] = key_text(record["key"])
    return record


def key_text(key: Hashable) -> str | None:
    """A key may be anything, and is told as text; where nothing is told apart there is none."""
    return None if key is None else str(key) or None
