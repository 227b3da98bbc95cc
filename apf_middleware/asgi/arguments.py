"""Checks of the middleware's arguments that are objects of the app, so that the error names the argument.

Without these checks a wrong object would fail deep in the set-up, or only at the first request that needs it.
"""

from collections.abc import Collection, Iterable
from typing import Final

from apf_middleware.asgi.identity import Authenticator
from apf_middleware.exceptions import InvalidValueError

__all__ = ["check_gates", "check_inventory", "check_registry", "checked_authenticators"]

_REQUIRED: Final = ("authenticate", "headers", "memorable")  # without `refresh` an authenticator works, and is logged
_WRAP: Final = "Wrap a function: apf_middleware.asgi.identity.FunctionAuthenticator(function)"


def checked_authenticators(given: Iterable[Authenticator]) -> tuple[Authenticator, ...]:
    """Return the authenticators; raise InvalidValueError unless each has what a chain of them needs."""
    several: object = given  # untyped callers may pass anything
    if not isinstance(several, Iterable):
        hint = f"Write [authenticator], also for a single one. {_WRAP}"
        raise InvalidValueError("authenticators", given, "it must be a list of authenticators", hint)
    found = tuple(given)
    for place, one in enumerate(found):
        name = f"authenticators[{place}]"
        if isinstance(one, type):
            raise InvalidValueError(name, one, "it must be an authenticator, not a class", "Call the class")
        missing = [attribute for attribute in _REQUIRED if not hasattr(one, attribute)]
        if missing:
            hint = _WRAP if callable(one) and "authenticate" in missing else ""
            raise InvalidValueError(name, one, f"it must be an authenticator, and has no {', '.join(missing)}", hint)
        _check_headers(f"{name}.headers", one.headers)
    return found


def _check_headers(name: str, given: object) -> None:
    """Raise InvalidValueError unless these are names as ASGI has them.

    A remembered identity would be that of all callers if its headers weren't found in requests.
    """
    several = given if isinstance(given, Collection) and not isinstance(given, str | bytes) else (None,)
    if not all(isinstance(header, bytes) and header == header.lower() for header in several):
        raise InvalidValueError(
            name, given, "it must be a set of names in lower case", 'Write frozenset((b"x-api-key",))'
        )


def check_registry(given: object) -> None:
    """Raise InvalidValueError unless collectors can be registered there; None is no registry."""
    if given is not None and (isinstance(given, type) or not callable(getattr(given, "register", None))):
        hint = "Give prometheus_client.REGISTRY, or leave it out to serve the metrics at /metrics"
        raise InvalidValueError("registry", given, "it must be a CollectorRegistry of prometheus_client", hint)


def check_inventory(given: object) -> None:
    """Raise InvalidValueError unless the inventory can be called."""
    if not callable(given):
        hint = "It is called with a Resource, and returns ObjectStats, or None if the number is unknown"
        raise InvalidValueError("inventory", given, "it must be a function", hint)


def check_gates(given: object) -> None:
    """Raise InvalidValueError unless these are the `Gates` of an app, or None."""
    if given is None:
        return
    from apf_middleware.gates import Gates  # noqa: PLC0415 - most servers have no gates, and needn't import them

    if not isinstance(given, Gates):
        hint = "Make gates = apf_middleware.Gates(), and add the gates to it, such as gates.capacity('db', 5)"
        raise InvalidValueError("gates", given, "it must be a Gates object", hint)
