"""The mode of this worker: whether it limits requests, only observes what it would do, or is off."""

from collections.abc import Mapping

from apf_middleware.asgi.admin.documents import ModeChange, ModeDocument
from apf_middleware.asgi.admin.observation import View
from apf_middleware.asgi.admin.protocol import (
    AdminRequest,
    Handler,
    answer_json,
    log_change,
    read_body,
    worker_of,
)
from apf_middleware.asgi.responses import Answer

__all__ = ["ModeResource"]


class ModeResource:
    """The mode of ``view``."""

    def __init__(self, view: View, app: str) -> None:
        self._view = view
        self._app = app

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """Return the handlers by method."""
        return None if steps else ("", {"GET": self._get, "PUT": self._put})

    async def _get(self, _request: AdminRequest) -> Answer:
        return self._answer()

    async def _put(self, request: AdminRequest) -> Answer:
        mode, before = (await read_body(request, ModeChange))["mode"], self._view.mode
        self._view.switch(mode)
        self._view.notices.tell_mode(mode)
        log_change(request.actor, "mode-switched", mode=mode, before=before)
        return self._answer()

    def _answer(self) -> Answer:
        return answer_json(ModeDocument(worker_of(self._app), self._view.mode, dict(self._view.passed)))
