"""What can be asked of one part of the admin: by path and method, of whom, and who is told of changes."""

import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Receive, Scope

from apf_middleware import __version__
from apf_middleware.asgi.admin.answers import Trouble
from apf_middleware.asgi.responses import Answer
from apf_middleware.classification.text import printable
from apf_middleware.runtime import log_event

__all__ = ["Ask", "Desk", "Handler", "Who", "changed", "missing_page", "refused", "signature", "worker_of"]


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


def worker_of(app: str) -> dict[str, object]:
    """Who answers: the process, which may have been forked since the server was made."""
    return {"pid": os.getpid(), "app": app, "version": __version__}


def signature(who: Who) -> str:
    """Who gives an order, as it is written into the log: one word, so that no name can pass for another fact."""
    return _word(f"{who.name} ({who.via})")


def changed(who: Who, event: str, **facts: object) -> None:
    """Write down that somebody has changed something."""
    told = {name: _word(fact) if isinstance(fact, str) else fact for name, fact in facts.items() if fact is not None}
    log_event(logging.INFO, f"apf.{event}", by=signature(who), **told)


def refused(who: Who, what: str, why: str) -> None:
    """Write down that somebody wanted a change and didn't get it."""
    log_event(logging.WARNING, "apf.change-refused", by=signature(who), what=_word(what), why=_word(why))


def _word(text: str) -> str:
    return json.dumps(printable(text), ensure_ascii=False)


def missing_page(names: str) -> Trouble:
    """Nothing is there."""
    return Trouble(404, "no-such-page", "Not Found", f"Here are {names}.")
