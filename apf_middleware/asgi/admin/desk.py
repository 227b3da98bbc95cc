"""What can be asked of one part of the admin: by path and method, of whom, and who is told of changes."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Receive, Scope

from apf_middleware.asgi.admin.answers import Trouble
from apf_middleware.asgi.admin.words import printable
from apf_middleware.asgi.responses import Answer
from apf_middleware.runtime import tell

__all__ = ["Ask", "Desk", "Handler", "Who", "audit", "missing_page"]


@dataclass(frozen=True, slots=True)
class Who:
    """Somebody who may look, as the audit log calls them, and whether they may change anything."""

    name: str
    via: str
    may_change: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """One request; ``name`` is that of the object that it is about."""

    scope: Scope
    receive: Receive
    who: Who
    name: str = ""


Handler = Callable[[Ask], Awaitable[Answer]]


class Desk(Protocol):
    """Answers what is asked of one kind of object."""

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """By method, what can be asked at this path, and the name of the object there; None if nothing."""
        ...


def audit(who: Who, what: str, **facts: object) -> None:
    """Write down that somebody has changed something, or wanted to."""
    told = {name: printable(str(value)) for name, value in facts.items() if value is not None}
    tell(logging.WARNING, "apf.changed", who=printable(who.name), via=who.via, what=what, **told)


def missing_page(names: str) -> Trouble:
    """Nothing is there."""
    return Trouble(404, "no-such-page", "Not Found", f"Here are {names}.")
