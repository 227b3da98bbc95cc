"""Gates that are created during the startup of the app, and removed after its shutdown.

A configuration names gates before there is an event loop, and so before there are connection pools for them. All gates
must exist when the startup has ended. They are removed after the shutdown, because the next startup creates new ones.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from apf_middleware.runtime import Controller, log_event

if TYPE_CHECKING:
    from apf_middleware.gates import Gates

__all__ = ["StartupGates"]

_REMEDY: Final = "name it in the gates of a schema, a route or a level, or it limits no request"


class StartupGates:
    """The gates of ``controller`` that exist from a startup of the app to its shutdown."""

    __slots__ = ("_controller", "_lasting", "_missing")

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._lasting: frozenset[str] = frozenset()
        self._missing: set[str] = set()

    def begin(self) -> None:
        """Begin the startup; gates that exist already stay after the shutdown."""
        gates = self._controller.gates
        self._lasting = frozenset() if gates is None else gates.names

    def require(self) -> None:
        """Raise InvalidValueError if a gate that the configuration names is missing; warn of those it doesn't name."""
        gates, configuration = self._controller.gates, self._controller.configuration
        if gates is not None:
            from apf_middleware.runtime.configured_gates import require_gates  # noqa: PLC0415 - loaded with the gates

            require_gates(configuration, gates)
            for name in sorted(self._added(gates) - configuration.named_gates):
                log_event(logging.WARNING, "apf.gate-unused", gate=name, hint=_REMEDY)

    def lacks(self, names: Iterable[str]) -> bool:
        """Return whether some of these gates are missing, and log each of them once."""
        gates = self._controller.gates or ()
        missing = {name for name in names if name not in gates}
        for name in missing - self._missing:
            log_event(logging.ERROR, "apf.gate-missing", gate=name, status=503)
        self._missing |= missing
        return bool(missing)

    def remove(self) -> None:
        """Remove the gates that the app has added since the startup began."""
        gates = self._controller.gates
        if gates is not None:
            for name in self._added(gates) - self._lasting:
                gates.remove(name)

    def _added(self, gates: "Gates") -> set[str]:
        """Return the names of the gates that the app has added: all but those of the configuration."""
        configured = {gate.name for gate in self._controller.configuration.server.gates}
        found = gates.scheduler.gates.items()
        return {name for name, gate in found if gate.kind != "headroom" and name not in configured}

    def __repr__(self) -> str:
        return f"<StartupGates beside {', '.join(sorted(self._lasting)) or 'none'}>"
