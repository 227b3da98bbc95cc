"""The gates of a configuration: made from their settings, and changed by a reload."""

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from apf_middleware.classification import FlowSchema
from apf_middleware.classification.distinguisher import compile_distinguisher
from apf_middleware.classification.text import abridge
from apf_middleware.config import Configuration
from apf_middleware.config.gates import GateSettings
from apf_middleware.exceptions import InvalidValueError, UnknownGateError
from apf_middleware.gates import Capacity, GateRequest, Gates, Terms, Tokens

__all__ = ["adopt_gates", "find_gates", "require_gates"]

_ANY_LEVEL: Final = "any"

_Key = Callable[[GateRequest], Hashable]
_Cost = Callable[[GateRequest], int]
_PER: Final[dict[str, _Key]] = {
    "server": lambda _: "",
    "level": lambda request: request.level,
    "schema": lambda request: request.schema,
    "flow": lambda request: (request.schema, request.flow),
}


def require_gates(configuration: Configuration, gates: Gates, more: Iterable[str] = ()) -> None:
    """Raise UnknownGateError if a schema, a route or a level names a gate that isn't defined."""
    known = {*gates.scheduler.gates, *more}
    for owner, names in configuration.gates_by_owner():
        for name in names:
            if name not in known:
                there_are = f"There are: {', '.join(sorted(known)) or 'none'}"
                hint = f"{there_are}; define it in the Server's gates, or add it to Gates before the startup ends"
                raise UnknownGateError(f"gate of {owner}", name, "there is no gate of this name", hint)


def find_gates(configuration: Configuration, gates: Gates | None, before: Iterable[GateSettings]) -> Gates:
    """Return ``gates``, or new ones, to which those of the configuration can be added in place of those of ``before``.

    Raise UnknownGateError if one that is named isn't defined, and InvalidValueError if one is defined twice.
    """
    found = Gates() if gates is None else gates
    names = [settings.name for settings in configuration.server.gates]
    require_gates(configuration, found, names)
    own = found.names - {settings.name for settings in before}
    for name in names:
        if name in own:
            raise InvalidValueError("gates", name, "the app has a gate of this name already", "Rename one of them")
    return found


def adopt_gates(gates: Gates, before: Iterable[GateSettings], after: Iterable[GateSettings]) -> None:
    """Create the gates of ``after``, or change those of ``before`` to them; remove the others. Leases stay valid."""
    scheduler = gates.scheduler
    old = {settings.name: settings for settings in before if settings.name in gates}  # the app may have removed some
    for settings in after:
        known = old.pop(settings.name, None)
        if known is None or _nature(known) != _nature(settings):
            _replace(gates, known, _make(settings))
        elif known != settings:
            gate = scheduler.gates[settings.name]
            gate.terms = _terms(settings)
            if isinstance(gate, Capacity):
                gate.resize(settings.capacity or 0)
            elif isinstance(gate, Tokens) and settings.tokens is not None:
                gate.set_rate(gates.now(), settings.tokens.rate, settings.tokens.burst)
            scheduler.open_slots(gates.now(), gate)
    for name in old:
        scheduler.retire(gates.now(), name)


def _replace(gates: Gates, known: GateSettings | None, made: Capacity | Tokens) -> None:
    """Add a gate, which takes the place of the one that is ``known``, if there is one."""
    scheduler = gates.scheduler
    if known is None:
        scheduler.add(made)
        return
    before = scheduler.gates[known.name]
    made.counters = before.counters  # metrics must not fall
    made.counters.last = None  # its keys are other ones
    scheduler.retire(gates.now(), known.name)
    scheduler.add(made)
    if before.is_closed:  # until an operator opens it, or the time is over
        scheduler.close_gate(made, before.closed_until)


def _nature(settings: GateSettings) -> Hashable:
    """Return the settings that only another gate can change: they decide how leases are counted."""
    return settings.tokens is None, settings.key, settings.per, settings.cost


def _make(settings: GateSettings) -> Capacity | Tokens:
    key = _key(settings)
    cost = _cost(settings)
    tokens = settings.tokens
    if tokens is None:
        return Capacity(settings.name, settings.capacity or 0, _terms(settings), key, cost)
    return Tokens(settings.name, tokens.rate, tokens.burst, terms=_terms(settings), key=key, cost=cost)


def _terms(settings: GateSettings) -> Terms:
    return Terms(
        status=settings.status,
        on_error=settings.on_error,
        max_parked=settings.max_parked,
        release=settings.release,
    )


def _cost(settings: GateSettings) -> _Cost:
    cost = settings.cost
    if isinstance(cost, int):
        return lambda _: cost
    return lambda request: request.seats


def _key(settings: GateSettings) -> _Key:
    if settings.key is None:
        return _PER[settings.per or "server"]
    schema = FlowSchema(settings.name, _ANY_LEVEL, 1, (), settings.key)  # a key is read like a schema's distinguisher
    read = compile_distinguisher(schema)
    return lambda request: "" if request.digest is None else abridge(read(request.digest))
