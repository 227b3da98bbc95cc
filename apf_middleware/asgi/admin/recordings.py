"""Recordings of the traffic of this worker: the list of those under way, and their start and end by an operator.

A recording is the answer to the request that starts it: a header, a line for each request that has ended, and a footer.
It ends after its time, when it is stopped, when its client disconnects, and when the server shuts down.
"""

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Final

from apf_middleware.asgi.admin.documents import (
    RecordingDocument,
    RecordingList,
    RecordingSnapshot,
    RecordingStart,
)
from apf_middleware.asgi.admin.observation import View
from apf_middleware.asgi.admin.protocol import (
    AdminError,
    AdminRequest,
    Handler,
    answer_json,
    answer_stream,
    log_change,
    log_refusal,
    read_body,
    worker_of,
)
from apf_middleware.asgi.admin.recording_stream import RecordingStream
from apf_middleware.asgi.admin.streamed_answer import StreamedAnswer
from apf_middleware.asgi.own_thread import run_in_own_thread
from apf_middleware.asgi.recording import Recorder, RecordingSettings
from apf_middleware.asgi.responses import Answer
from apf_middleware.classification.text import printable
from apf_middleware.config.fingerprint import fingerprint

__all__ = ["MOST_AT_ONCE", "PATIENCE_S", "RecordingResource"]

MOST_AT_ONCE: Final = 4
"""The number of recordings that may be under way at once."""

PATIENCE_S: Final = 60.0
"""The longest time for which a client may stop reading: then its recording ends, so that it takes no place for ever."""

_NDJSON: Final = "application/x-ndjson"


class RecordingResource:
    """The recordings of ``view``."""

    def __init__(self, view: View, app: str) -> None:
        self._view = view
        self._app = app

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """Return the identifier of the recording at this path, and the handlers by method."""
        match steps:
            case []:
                return "", {"GET": self._list, "POST": self._start}
            case [name] if name:
                return name, {"GET": self._get, "DELETE": self._stop}
        return None

    def _recorders(self) -> list[Recorder]:
        return [one for one in self._view.observers if isinstance(one, Recorder)]

    def _recorder(self, request: AdminRequest) -> Recorder:
        found = next((one for one in self._recorders() if one.settings.id == request.name), None)
        if found is None:
            raise AdminError(404, "not-found", f"There is no recording {request.name!r} under way.")
        return found

    async def _list(self, _request: AdminRequest) -> Answer:
        found = tuple(map(_snapshot, self._recorders()))
        return answer_json(RecordingList(worker_of(self._app), found))

    async def _get(self, request: AdminRequest) -> Answer:
        return answer_json(RecordingDocument(worker_of(self._app), _snapshot(self._recorder(request))))

    async def _stop(self, request: AdminRequest) -> Answer:
        recorder = self._recorder(request)
        recorder.stop()
        log_change(request.actor, "recording-stopped", id=request.name)
        return answer_json(RecordingDocument(worker_of(self._app), _snapshot(recorder)))

    async def _start(self, request: AdminRequest) -> StreamedAnswer:
        asked, view = await read_body(request, RecordingStart), self._view
        configuration = await run_in_own_thread(partial(fingerprint, view.configuration))
        if view.controller.is_closing:
            raise AdminError(409, "closing", "The server shuts down.")
        if len(self._recorders()) >= MOST_AT_ONCE:
            log_refusal(request.actor, "start a recording", "too many")
            detail = f"There are {MOST_AT_ONCE} recordings already, which is the most: stop one, or wait."
            raise AdminError(409, "too-many", detail)
        settings = RecordingSettings(
            secrets.token_hex(4),
            printable(f"{request.actor.name} ({request.actor.via})"),
            float(asked["seconds"]),
            float(asked.get("sample", 1.0)),
            asked.get("names", "hashed"),
        )
        key = bytes.fromhex(asked.get("key") or secrets.token_hex(32))
        facts = {"id": settings.id, "seconds": settings.seconds, "sample": settings.sample, "names": settings.names}
        log_change(request.actor, "recording-started", **facts)
        stream = RecordingStream(view, settings, key, configuration=configuration, app=self._app)
        return answer_stream(_NDJSON, stream.parts(), PATIENCE_S, [])


def _snapshot(recorder: Recorder) -> RecordingSnapshot:
    settings = recorder.settings
    return RecordingSnapshot(
        id=settings.id,
        by=settings.by,
        since=round(recorder.seconds, 3),
        left=round(max(0.0, settings.seconds - recorder.seconds), 3),
        rows=recorder.rows,
        lost=recorder.lost,
        sample=settings.sample,
        names=settings.names,
    )
