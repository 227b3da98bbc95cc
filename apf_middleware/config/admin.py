"""Settings of the admin: the ``admin`` of a Server document, its address and its users."""

import re
from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import BeforeValidator

from apf_middleware.classification import ANONYMOUS
from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.sockets import DEFAULT_APP, require_app, require_directory
from apf_middleware.config.values import NonEmpty, TextSet, rule_error
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.frozen import frozen

__all__ = ["DEFAULT_PATH", "AdminSettings"]

DEFAULT_PATH: Final = "/debug/api_priority_and_fairness"
"""The path of the debug dumps in Kubernetes."""

_PATH: Final = r"(/[^\s/?#*{}]+)+"
_UNAUTHENTICATED: Final = frozenset({"*", ANONYMOUS.name, *ANONYMOUS.groups})


def _not_flag(given: object) -> object:
    if isinstance(given, bool):
        raise rule_error("it must be the directory in which each worker has a Unix socket", "Write it like /run/shop")
    return given


@frozen
class AdminSettings(Settings):
    """The pages below ``path``: members of any of the ``groups`` may read them, ``operators`` may also make changes.

    Without groups and operators, nothing is served over HTTP. ``socket`` is the directory where each worker of ``app``
    has a unix socket, for every process that may connect to it. Requests without credentials are never let in, so their
    groups can't be named here. With a ``console``, there is also a page for browsers.
    """

    path: NonEmpty = DEFAULT_PATH
    groups: TextSet = ()
    operators: TextSet = ()
    socket: Annotated[NonEmpty, BeforeValidator(_not_flag)] = ""
    app: NonEmpty = DEFAULT_APP
    console: bool = False

    @property
    def is_on(self) -> bool:
        """True if requests are answered over HTTP."""
        return bool(self.groups or self.operators)

    def rules(self) -> Iterator[Violation]:
        if not re.fullmatch(_PATH, self.path):
            rule = "it must be a path below the root, like /debug/apf, without a slash at its end and without a query"
            yield Violation(("path",), self.path, rule)
        for field in ("groups", "operators"):
            for place, group in enumerate(getattr(self, field)):
                if not group:
                    hint = f"Write {field}: [] to allow no access"
                    yield Violation((field, place), group, "it must not be empty", hint)
                elif group in _UNAUTHENTICATED:
                    rule = "only authenticated callers can have access"
                    yield Violation((field, place), group, rule, "Name a group that authentication gives")
        try:
            require_app(self.app)
            if self.socket:
                require_directory("socket", self.socket, self.app)
        except InvalidValueError as error:
            yield Violation((error.name,), error.value, error.rule, error.hint)
