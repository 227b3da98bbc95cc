"""The user's own function, sync or async, from the scope to an identity.

What it raises is not caught: a defect there is the server's error, not the caller's bad credentials.
"""

import importlib
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from starlette.types import Scope

from apf_middleware.asgi.identity.verdict import Authenticated, Refused, Verdict
from apf_middleware.classification import Identity
from apf_middleware.config.authentication import FunctionSettings
from apf_middleware.exceptions import InvalidValueError

__all__ = ["Answer", "FunctionAuthenticator"]

Answer = Identity | Verdict | None
"""What the function may return: who it is, a whole verdict, or None if it sees no credentials of its kind."""


class FunctionAuthenticator:
    """Asks the function. With ``headers``, its answers depend on nothing else and may be remembered by them."""

    __slots__ = ("_function", "headers", "memorable")

    def __init__(
        self, function: Callable[[Scope], Answer | Awaitable[Answer]], headers: Iterable[str] | None = None
    ) -> None:
        self._function = function
        self.memorable: bool = headers is not None
        self.headers: frozenset[bytes] = frozenset(one.lower().encode("ascii") for one in headers or ())

    @classmethod
    def of(cls, settings: FunctionSettings) -> "FunctionAuthenticator":
        """As configured: the function is imported now."""
        module, _, names = settings.callable.partition(":")
        hint = "Write package.module:function; it must be importable where the server runs"
        try:
            found: Any = importlib.import_module(module)
            for name in names.split("."):
                found = getattr(found, name)
        except Exception as error:
            # Importing runs other people's code, which may raise anything.
            rule = f"it must be importable: {type(error).__name__}: {error}"
            raise InvalidValueError("callable", settings.callable, rule, hint) from error
        if not callable(found):
            raise InvalidValueError("callable", settings.callable, "it must be a function", hint)
        return cls(found, settings.headers)

    def __repr__(self) -> str:
        return f"FunctionAuthenticator({self._function!r}, memorable={self.memorable})"

    def authenticate(self, scope: Scope) -> Verdict | Awaitable[Verdict | None] | None:
        """The function's answer, at once unless it is to be awaited."""
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
        """What the function keeps is its own."""
        return False


def _verdict(answer: Answer) -> Verdict | None:
    return Authenticated(answer) if isinstance(answer, Identity) else answer
