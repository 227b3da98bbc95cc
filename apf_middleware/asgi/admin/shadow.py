"""The shadow of this worker: a configuration that is tried beside the one in force."""

from collections.abc import Mapping, Sequence
from functools import partial

from apf_middleware.asgi.admin.documents import FieldError, Nothing, ShadowDocument, ShadowStart
from apf_middleware.asgi.admin.observation import View
from apf_middleware.asgi.admin.protocol import (
    LONGEST_CONFIGURATION,
    AdminError,
    AdminRequest,
    Handler,
    answer_json,
    invalid,
    log_change,
    read_body,
    worker_of,
)
from apf_middleware.asgi.own_thread import run_in_own_thread
from apf_middleware.asgi.responses import Answer
from apf_middleware.asgi.shadow_control import read_trial
from apf_middleware.classification.text import printable
from apf_middleware.config import ConfigurationError, Problem
from apf_middleware.exceptions import APFError

__all__ = ["ShadowResource"]


class ShadowResource:
    """The shadow of ``view``."""

    def __init__(self, view: View, app: str) -> None:
        self._view = view
        self._app = app

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """Return the handlers by method."""
        if steps == ["promote"]:
            return "", {"POST": self._promote}
        return None if steps else ("", {"GET": self._get, "PUT": self._put, "DELETE": self._delete})

    async def _get(self, _request: AdminRequest) -> Answer:
        return await self._answer()

    async def _put(self, request: AdminRequest) -> Answer:
        body = await read_body(request, ShadowStart, LONGEST_CONFIGURATION)
        text, source = body["configuration"], printable(body.get("source", "the request"))  # it is logged
        classify_only = body.get("classifyOnly", False)
        try:
            # YAML takes long to read, so a thread reads it.
            trial = await run_in_own_thread(partial(read_trial, text, source, classify_only=classify_only))
            self._view.shadow.start(trial)
        except ConfigurationError as error:
            raise invalid(_errors(error.problems)) from None
        except APFError as error:
            raise invalid([FieldError("configuration", None, str(error))]) from None
        self._view.notices.tell_shadow(text, source, classify_only=classify_only)
        log_change(request.actor, "shadow-begun", source=source, classify_only=classify_only)
        return await self._answer()

    async def _delete(self, request: AdminRequest) -> Answer:
        found = await self._document()
        if not self._view.shadow.stop():
            return answer_json(found)  # another member of the fleet may have ended it everywhere
        self._view.notices.tell_shadow(None)
        log_change(request.actor, "shadow-ended")
        return answer_json(found)

    async def _promote(self, request: AdminRequest) -> Answer:
        await read_body(request, Nothing)
        view = self._view
        found, trial = await self._document(), view.shadow.trial
        if trial is None:
            if view.shadow.was_promoted:
                return answer_json(found)  # by another member of the fleet
            raise _nothing_tried()
        if not view.shadow.is_running:
            detail = "The configuration failed while it was tried, and could fail in force, too: GET shadow says how."
            raise AdminError(409, "shadow-failed", detail)
        problems = await view.shadow.promote()
        if problems:
            raise invalid(_errors(problems))
        view.notices.tell_promotion(trial.text, trial.source)
        log_change(request.actor, "shadow-promoted", source=trial.source)
        return answer_json(found)

    async def _answer(self) -> Answer:
        return answer_json(await self._document())

    async def _document(self) -> ShadowDocument:
        return ShadowDocument(worker_of(self._app), await self._view.shadow.report())


def _nothing_tried() -> AdminError:
    detail = "No configuration is tried now; begin with PUT, or with apf shadow start."
    return AdminError(404, "no-shadow", detail)


def _errors(problems: Sequence[Problem]) -> list[FieldError]:
    return [FieldError("configuration", None, str(problem)) for problem in problems]
