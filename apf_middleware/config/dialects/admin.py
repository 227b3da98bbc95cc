"""The ``admin`` part of a Server document."""

import re
from collections.abc import Iterator
from typing import Final

from pydantic import Field

from apf_middleware.classification import ANONYMOUS
from apf_middleware.config.admin import DEFAULT_PATH, AdminSettings
from apf_middleware.config.dialects.base import Broken
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.dialects.values import NonEmpty, StringSet

__all__ = ["AdminModel"]

_PATH: Final = r"(/[^\s/?#*{}]+)+"
_UNAUTHENTICATED: Final = frozenset({"*", ANONYMOUS.name, *ANONYMOUS.groups})


class AdminModel(CamelModel):
    """Without ``groups`` there is no admin. Who hasn't shown credentials is never let in, so can't be named here."""

    path: NonEmpty = DEFAULT_PATH
    groups: StringSet = Field(default_factory=list)

    def rules(self) -> Iterator[Broken]:
        if not re.fullmatch(_PATH, self.path):
            rule = "it must be a path below the root, like /debug/apf, without a slash at its end and without a query"
            yield Broken(("path",), self.path, rule)
        for place, group in enumerate(self.groups):
            if not group:
                yield Broken(("groups", place), group, "it must not be empty", "Write groups: [] to switch it off")
            elif group in _UNAUTHENTICATED:
                rule = "only people who have shown credentials can be let in"
                yield Broken(("groups", place), group, rule, "Name a group that authentication gives")

    def built(self) -> AdminSettings:
        return AdminSettings(self.path, tuple(self.groups))
