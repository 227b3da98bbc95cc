"""The configuration in force as YAML that can be loaded again, its warnings as comments; and its reload.

YAML takes long to write, so a thread writes it, once for each configuration.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from apf_middleware.asgi.admin.documents import ConfigurationProblem, ReloadDocument
from apf_middleware.asgi.admin.formatting import Formatter, printable
from apf_middleware.asgi.admin.observation import View
from apf_middleware.asgi.admin.protocol import AdminError, AdminRequest, answer_json
from apf_middleware.asgi.loop_lock import LoopLock
from apf_middleware.asgi.own_thread import run_in_own_thread
from apf_middleware.asgi.responses import Answer
from apf_middleware.config import Configuration, Problem, convert
from apf_middleware.config.emit import emit_documents
from apf_middleware.config.problems import Problems, Severity
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime import log_event

__all__ = ["ConfigurationDump", "describe_problem", "reload"]

_NO_WARNINGS: Final = "# No warnings.\n"


class ConfigurationDump:
    """Writes the configuration in force, and keeps the text until another configuration is in force."""

    __slots__ = ("_last", "_lock", "_written")

    def __init__(self) -> None:
        self._lock = LoopLock()
        self._last: Configuration | None = None
        self._written: dict[bool, tuple[str, tuple[Problem, ...]]] = {}

    async def __call__(self, view: View, formatter: Formatter, query: Mapping[str, str], *, as_json: bool) -> bytes:  # noqa: ARG002
        configuration, problems = view.configuration, tuple(view.problems)
        if configuration is not self._last:
            self._last, self._written = configuration, {}
        kept = self._written  # of this configuration, even if another is put in force meanwhile
        if as_json not in kept:
            async with self._lock.here():  # simultaneous requests use one thread, not one each
                if as_json not in kept:
                    kept[as_json] = await run_in_own_thread(partial(_write, configuration, as_json=as_json))
        text, unsaid = kept[as_json]
        found = (*problems, *unsaid)
        if as_json:
            found_json = json.dumps([problem.as_dict() for problem in found])
            return f'{{"problems": {found_json}, "documents": {text}}}\n'.encode()
        return (_as_comments(found) + text).encode()


def _write(configuration: Configuration, *, as_json: bool) -> tuple[str, tuple[Problem, ...]]:
    """Return the documents, and a problem for each setting that they can't express."""
    unsaid = Problems()
    if as_json:
        text = json.dumps(list(emit_documents(configuration, "apf", unsaid)), default=str)
    else:
        text = convert(configuration, "apf", unsaid)
    return text, tuple(unsaid)


def _as_comments(problems: Sequence[Problem]) -> str:
    if not problems:
        return _NO_WARNINGS
    return "".join(f"# {printable(str(problem), most=1000)}\n" for problem in problems)


async def reload(view: View, request: AdminRequest) -> Answer:
    """Read the configuration again, and log the actor."""
    client, actor = request.scope.get("client"), request.actor
    log_event(logging.INFO, "apf.reload-asked", user=printable(actor.name), client=client[0] if client else actor.via)
    try:
        is_in_force = await view.reload()
    except InvalidValueError as error:
        detail = f"Nothing can be read again: {error.rule}."
        raise AdminError(409, "nothing-to-read", detail) from None
    severity = Severity.WARNING if is_in_force else Severity.ERROR
    configuration = view.configuration
    outcome = ReloadDocument(
        reloaded=is_in_force,
        seats=configuration.server.total,
        levels=len(configuration.levels),
        schemas=len(configuration.schemas),
        problems=tuple(describe_problem(problem) for problem in view.problems if problem.severity is severity),
    )
    return answer_json(outcome, status=HTTPStatus.OK if is_in_force else HTTPStatus.UNPROCESSABLE_ENTITY)


def describe_problem(problem: Problem) -> ConfigurationProblem:
    """Return a problem as a document."""
    fields: dict[str, Any] = dict(problem.as_dict())
    return ConfigurationProblem(**fields)
