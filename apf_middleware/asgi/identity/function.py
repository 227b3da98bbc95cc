"""Authentication by a function of the application, sync or async, from the scope to an identity.

Exceptions from the function are not caught: a defect in it is a server error, not a sign of bad credentials.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from math import inf

from starlette.types import Scope

from apf_middleware.asgi.identity.verdict import Authenticated, Refused, Verdict
from apf_middleware.classification import Identity
from apf_middleware.config.authentication import FunctionSettings
from apf_middleware.config.values import is_header, load_callable
from apf_middleware.exceptions import InvalidValueError

__all__ = ["Answer", "FunctionAuthenticator"]

Answer = Identity | Verdict | None
"""A function's result: an identity, a verdict, or None if there are no credentials of its kind."""


def _checked(headers: Iterable[str] | None) -> list[bytes]:
    """Return the names in lower case; with a name that no header has, all callers would be the first one."""
    if isinstance(headers, str | bytes):
        raise InvalidValueError("headers", headers, "it must be a list of names", "Write [name], also for a single one")
    found = []
    for one in headers or ():
        given: object = one
        if not isinstance(given, str) or not is_header(given.lower()):
            raise InvalidValueError("headers", one, "it must be the name of a header", "Write it like x-api-key")
        found.append(given.lower().encode("ascii"))
    return found


class FunctionAuthenticator:
    """An authenticator that calls a function.

    If ``headers`` are given, answers may be cached, so they must depend only on these headers and on the other facts
    that `Authenticator` lists.
    """

    __slots__ = ("_function", "headers", "memorable")

    def __init__(
        self, function: Callable[[Scope], Answer | Awaitable[Answer]], headers: Iterable[str] | None = None
    ) -> None:
        self._function = function
        self.memorable: bool = headers is not None
        self.headers: frozenset[bytes] = frozenset(_checked(headers))

    @classmethod
    def of(cls, settings: FunctionSettings) -> "FunctionAuthenticator":
        """Import the function that ``settings`` name; InvalidValueError if it can't be imported."""
        try:
            found = load_callable(settings.callable)
        except ValueError as error:
            hint = "Write package.module:function; it must be importable where the server runs"
            raise InvalidValueError("callable", settings.callable, str(error), hint) from error
        return cls(found, settings.headers)

    def __repr__(self) -> str:
        return f"FunctionAuthenticator({self._function!r}, memorable={self.memorable})"

    def authenticate(self, scope: Scope) -> Verdict | Awaitable[Verdict | None] | None:
        """Call the function, and return its answer, as an awaitable only if the function returns one."""
        answer = self._function(scope)
        if isinstance(answer, Identity | Authenticated | Refused | None):
            return _verdict(answer)
        if inspect.isawaitable(answer):
            return self._awaited(answer)
        raise self._odd(answer)

    async def _awaited(self, answer: Awaitable[Answer]) -> Verdict | None:
        settled = await answer
        if isinstance(settled, Identity | Authenticated | Refused | None):
            return _verdict(settled)
        raise self._odd(settled)

    def _odd(self, answer: object) -> InvalidValueError:
        rule = "it must be an Identity, Authenticated, Refused or None"
        return InvalidValueError(f"what {self._function!r} returned", answer, rule)

    def refresh(self) -> bool:
        """Return False, because the function manages its own state."""
        return False


def _verdict(answer: Answer) -> Verdict | None:
    verdict = Authenticated(answer) if isinstance(answer, Identity) else answer
    if isinstance(verdict, Authenticated):
        name: object = verdict.identity.name
        uid: object = verdict.identity.uid
        for part, text in (("name", name), ("uid", uid)):
            if not isinstance(text, str):
                raise InvalidValueError(f"{part} of an identity", text, "it must be text", "Write str(…) for a number")
        until: object = verdict.valid_until
        if until is not None and not (isinstance(until, int | float) and until > -inf):  # NaN isn't greater, either
            rule = "it must be a number of seconds since 1970"
            raise InvalidValueError("valid_until of an identity", until, rule, "Write when.timestamp() for a datetime")
        groups: object = verdict.identity.groups  # of a text such as ("staff"), each letter would be a group
        if not isinstance(groups, tuple | list) or not all(isinstance(one, str) for one in groups):
            raise InvalidValueError("groups of an identity", groups, "it must be a tuple of names", "Write (name,)")
        if isinstance(groups, list):
            return replace(verdict, identity=replace(verdict.identity, groups=tuple(groups)))
    return verdict
