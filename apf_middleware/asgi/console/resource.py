"""The console as a part of the admin: its files, and the events that they show.

All of it is answered only after the admin has authorized the caller, as with every other page.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from apf_middleware.asgi.admin.documents import to_json
from apf_middleware.asgi.admin.observation import View
from apf_middleware.asgi.admin.protocol import MARK, AdminRequest, Handler, answer_stream, worker_of
from apf_middleware.asgi.admin.streamed_answer import StreamedAnswer
from apf_middleware.asgi.console.assets import INDEX, answer_asset, assets
from apf_middleware.asgi.console.feed import ConsoleFeed
from apf_middleware.asgi.responses import Answer
from apf_middleware.asgi.scope import Headers, HeaderView

__all__ = ["PATIENCE_S", "ConsoleResource"]

PATIENCE_S: Final = 30.0
"""The time that a client may take to read one event; after that its stream ends."""

_UNBUFFERED: Final[Headers] = [(b"x-accel-buffering", b"no")]  # nginx would collect events


class ConsoleResource:
    """The console about ``view``, of a server called ``app``; the wall clock is ``offset()`` ahead of its clock."""

    def __init__(self, view: View, app: str, offset: Callable[[], int]) -> None:
        self._app = app
        self._feed = ConsoleFeed(view, offset)

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """Return the name of a file or of the events, and the handlers by method."""
        match steps:
            case []:
                return "", {"GET": _to_folder}
            case [""]:
                return "", {"GET": partial(_answer_file, INDEX)}
            case ["events"]:
                return "events", {"GET": self._stream}
            case [name] if name in assets() and name != INDEX:
                return name, {"GET": partial(_answer_file, name)}
        return None

    async def _stream(self, request: AdminRequest) -> StreamedAnswer:
        actor = request.actor
        greeting = {"actor": actor.name, "may_change": actor.may_change, "worker": to_json(worker_of(self._app))}
        return answer_stream("text/event-stream", self._feed.events(greeting), PATIENCE_S, _UNBUFFERED)


async def _to_folder(_request: AdminRequest) -> Answer:
    """Redirect to the page, whose files have relative addresses."""
    return Answer(308, [(b"location", b"console/"), (b"content-length", b"0"), (MARK.encode(), b"1")], b"")


async def _answer_file(name: str, request: AdminRequest) -> Answer:
    return answer_asset(name, HeaderView(request.scope).get("if-none-match", ""))
