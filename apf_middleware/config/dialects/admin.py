"""The ``admin`` part of a Server document."""

import re
from collections.abc import Iterator
from typing import Final

from pydantic import Field

from apf_middleware.classification import ANONYMOUS
from apf_middleware.config.admin import DEFAULT_APP, DEFAULT_PATH, AdminSettings
from apf_middleware.config.dialects.base import Broken
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.dialects.values import NonEmpty, StringSet
from apf_middleware.config.sockets import require_app, require_directory
from apf_middleware.exceptions import InvalidValueError

__all__ = ["AdminModel"]

_PATH: Final = r"(/[^\s/?#*{}]+)+"
_UNAUTHENTICATED: Final = frozenset({"*", ANONYMOUS.name, *ANONYMOUS.groups})


class AdminModel(CamelModel):
    """Without ``groups`` and ``operators`` nothing is served over HTTP, and without ``socket`` there is no socket.

    Who hasn't shown credentials is never let in, so can't be named here.
    """

    path: NonEmpty = DEFAULT_PATH
    groups: StringSet = Field(default_factory=list)
    operators: StringSet = Field(default_factory=list)
    socket: NonEmpty | None = None
    app: NonEmpty = DEFAULT_APP

    def rules(self) -> Iterator[Broken]:
        if not re.fullmatch(_PATH, self.path):
            rule = "it must be a path below the root, like /debug/apf, without a slash at its end and without a query"
            yield Broken(("path",), self.path, rule)
        yield from _group_rules("groups", self.groups)
        yield from _group_rules("operators", self.operators)
        try:
            require_app(self.app)
            if self.socket is not None:
                require_directory("socket", self.socket, self.app)
        except InvalidValueError as error:
            yield Broken((error.name,), error.value, error.rule, error.hint)

    def built(self) -> AdminSettings:
        return AdminSettings(self.path, tuple(self.groups), tuple(self.operators), self.socket or "", self.app)


def _group_rules(field: str, groups: list[str]) -> Iterator[Broken]:
    for place, group in enumerate(groups):
        if not group:
            yield Broken((field, place), group, "it must not be empty", f"Write {field}: [] to let nobody in")
        elif group in _UNAUTHENTICATED:
            rule = "only people who have shown credentials can be let in"
            yield Broken((field, place), group, rule, "Name a group that authentication gives")
