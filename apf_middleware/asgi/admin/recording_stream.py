"""The body of a recording: a header, lines of requests that have ended, and a footer."""

import logging
import os
from collections.abc import AsyncGenerator
from time import time_ns
from typing import TYPE_CHECKING, Final

import anyio

from apf_middleware.asgi.admin.observation import View, observe_requests
from apf_middleware.asgi.recording import Disguise, NeededFacts, Recorder, RecordingSettings
from apf_middleware.recordings import Footer, Header, Pseudonyms, request_line
from apf_middleware.recordings.marks import EndReason, wall_time
from apf_middleware.runtime import Admission, log_event

if TYPE_CHECKING:
    from apf_middleware.config import Configuration

__all__ = ["RecordingStream"]

_PAUSE_S: Final = 0.1
_QUIET_S: Final = 3.0  # after so long without requests an empty line is sent, or the client would take it for dead
_ROWS_AT_ONCE: Final = 200


class RecordingStream:
    """One recording of the requests of ``view``; ``configuration`` is the digest of the one in force."""

    def __init__(self, view: View, settings: RecordingSettings, key: bytes, *, configuration: str, app: str) -> None:
        self._view = view
        self._settings = settings
        self._pseudonyms = Pseudonyms(key)
        self._digest = configuration
        self._app = app
        self._in_force: Configuration = view.configuration
        self._mode = view.mode
        self._is_settled = True

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines in parts, until the recording ends."""
        view, settings = self._view, self._settings
        recorder = Recorder(
            settings, self._disguise(), self._pseudonyms, now=view.controller.now, address_of=view.chain.client_address
        )
        view.observers.add(recorder)
        try:
            recorder.adopt(_standing(view))
            yield self._header(recorder).line().encode() + b"\n"
            quiet = 0.0
            while not (reason := self._reason(recorder)):
                self._follow_configuration(recorder)
                part = _lines(recorder)
                if part or quiet >= _QUIET_S:
                    quiet = 0.0
                    yield part or b"\n"
                if not recorder.has_more:
                    await anyio.sleep(_PAUSE_S)
                    quiet += _PAUSE_S
            recorder.stop()
            while recorder.has_more:
                yield _lines(recorder)
            yield self._footer(recorder, reason).line().encode() + b"\n"
        finally:
            recorder.stop()
            view.observers.remove(recorder)
            log_event(logging.INFO, "apf.recording-ended", id=settings.id, rows=recorder.rows, lost=recorder.lost)

    def _disguise(self) -> Disguise:
        facts = self._facts()
        return Disguise(facts, self._pseudonyms, are_plain=self._settings.names == "plain")

    def _facts(self) -> NeededFacts:
        return NeededFacts(self._in_force, self._view.chain.headers)

    def _reason(self, recorder: Recorder) -> EndReason | None:
        """Return why the recording is over; None if it isn't."""
        if self._view.controller.is_closing:
            return "shutdown"
        if recorder.is_stopped:
            return "stopped"
        return "time" if recorder.is_over else None

    def _follow_configuration(self, recorder: Recorder) -> None:
        """Notice that another configuration is in force."""
        view = self._view
        if view.configuration is not self._in_force:
            self._in_force, self._is_settled = view.configuration, False
            recorder.disguise.adopt(self._facts())
            recorder.address_of = view.chain.client_address
        if view.mode != self._mode:
            self._mode, self._is_settled = view.mode, False

    def _header(self, recorder: Recorder) -> Header:
        settings, now = self._settings, self._view.controller.now()
        return Header(
            start=wall_time(time_ns() - (now - recorder.began_at)),
            id=settings.id,
            app=self._app,
            server=f"pid:{os.getpid()}",
            configuration=self._digest,
            mode=self._mode,
            sample=settings.sample,
            names=settings.names,
            seconds=settings.seconds,
            standing=recorder.standing,
        )

    def _footer(self, recorder: Recorder, reason: EndReason) -> Footer:
        return Footer(recorder.rows, recorder.lost, round(recorder.seconds, 6), reason, self._is_settled)


def _lines(recorder: Recorder) -> bytes:
    return "".join(f"{request_line(row)}\n" for row in recorder.take(_ROWS_AT_ONCE)).encode()


def _standing(view: View) -> list[Admission]:
    """Return the requests that are there already: first those that run, then those that wait, in their order."""
    found = [one.admission for one in observe_requests(view)]
    running = [one for one in found if one.is_seated]
    waiting = [one for one in found if not one.is_seated]
    return [*sorted(running, key=lambda one: one.seated_at), *sorted(waiting, key=lambda one: one.arrived_at)]
