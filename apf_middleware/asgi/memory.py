"""What was found out about requests, for those who come again: the first stop of every request.

Most servers' requests have keys of nothing but method, path and peer. Those are made here, in the one call that looks
them up; `Keys` makes all others, and the same ones.
"""

from typing import Final, TypeVar

from starlette.types import Scope

from apf_middleware.asgi.keys import Key, Keys
from apf_middleware.classification.cache import BoundedCache

__all__ = ["REMEMBERED", "Memory"]

V = TypeVar("V")

REMEMBERED: Final = 4096


class Memory(BoundedCache[Key, V]):
    """Remembers under the keys that ``keys`` makes."""

    __slots__ = ("_keys", "_plain_methods", "_user")

    def __init__(self, keys: Keys) -> None:
        super().__init__(REMEMBERED)
        self._keys = keys
        self._plain_methods, self._user = keys.plain_methods, keys.user

    def recall(self, scope: Scope) -> V | None:
        """What is known about requests like this one, if anything is; None also where a scope is out of the common."""
        try:
            method = scope["method"]
            if method in self._plain_methods and self._user not in scope and not scope.get("root_path"):
                client = scope["client"]
                return self.young.get((method, scope["path"], client[0] if client else None))
            return self.young.get(self._keys.of_request(scope))
        except (KeyError, TypeError):
            return None
