"""Load reports for balancers: a header of responses, and a document at a path of its own."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.replies import RESPONSE_STARTS, with_headers
from apf_middleware.asgi.responses import JSON, Answer, uncached_answer
from apf_middleware.config.load_reports import LoadReportSettings
from apf_middleware.load_reports.meter import LoadMeter, LoadSample
from apf_middleware.load_reports.report import report_header
from apf_middleware.runtime import Controller
from apf_middleware.runtime.adaptive_runner import FOR_LACK_OF_SEATS

if TYPE_CHECKING:
    from apf_middleware.runtime.level import LevelRuntime

__all__ = ["LoadReports", "rejected_for_load"]

_VALID_NS: Final = 100_000_000
_MOST_LEVELS: Final = 8


def rejected_for_load(runtime: "LevelRuntime") -> int:
    """Return the number of requests of a level that weren't served in time because the server was too busy.

    Requests that have no time left when they arrive say nothing about the server.
    """
    return sum(
        sum(counters.rejected[one] for one in FOR_LACK_OF_SEATS) + counters.late - counters.expired
        for counters in runtime.schema_counters.values()
    )


class LoadReports:
    """Report the load of ``controller``, which has ``seats`` now; ``chain`` knows who is a trusted proxy.

    A report is made at most ten times a second, and only when it is asked for.
    """

    def __init__(
        self,
        settings: LoadReportSettings,
        controller: Controller,
        chain: Chain,
        seats: Callable[[], int],
        cpu: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self.settings: LoadReportSettings = settings
        self.chain: Chain = chain
        self._controller = controller
        self._seats = seats
        self._cpu = cpu
        self._demanded: dict[str, int] | None = None  # by level
        self._rejected = self._refused = 0  # rejections, and those that clients got: not while all requests pass
        self._sampled_at = self._valid_until = now = controller.now()
        self._meter = LoadMeter(now, self._sample(now))
        self._header = (b"", b"")

    @property
    def path(self) -> str:
        """The path of the document; empty if there is none."""
        return self.settings.path

    def answer(self, now: int) -> Answer:
        """Return the document."""
        self._refresh(now)
        return uncached_answer(200, [JSON], self._meter.report().as_json().encode())

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Wrap ``app`` so that its responses have the header."""
        if self.settings.header is None:
            return app

        def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            return app(scope, receive, self.sender(scope, send))

        return run

    def sender(self, scope: Scope, send: Send) -> Send:
        """Return ``send`` for the response to a request, with the header if its peer may have it."""
        if self.settings.header is None or not (self.settings.for_everybody or self.chain.comes_from_proxy(scope)):
            return send
        return partial(self._send, send)

    async def _send(self, send: Send, message: Message) -> None:
        if message["type"] in RESPONSE_STARTS:
            self._refresh(self._controller.now())
            message = with_headers(message, [self._header])
        await send(message)

    def _refresh(self, now: int) -> None:
        if now < self._valid_until:
            return
        self._valid_until = now + _VALID_NS
        self._meter.take(now, self._sample(now))
        if self.settings.header is not None:
            self._header = report_header(self._meter.report(), self.settings.header)

    def _sample(self, now: int) -> LoadSample:
        """Return what the counters say, and the mean utilisations since the sample before; the first has those of now.

        At the time of a response the request that gets it would always be there, so a look at that time shows too much.
        """
        elapsed, self._sampled_at = max(1, now - self._sampled_at), now
        before, self._demanded = self._demanded, {}
        served = errors = rejected = 0
        wanted = 0.0
        levels: dict[str, float] = {}
        for runtime in self._controller.registry.shown:
            if runtime.shared.exempt:
                continue
            total = self._demanded[runtime.name] = runtime.demanded_ns(now)
            if before is None:
                seats: float = runtime.shared.queueset.seats_in_use + runtime.shared.queueset.seats_waiting
            else:
                known = before.get(runtime.name, 0)
                # A sum that has fallen is that of a new level, which a reload has put in the place of another one.
                seats = (total - known if total >= known else total) / elapsed
            wanted += seats
            served += runtime.dispatched
            rejected += rejected_for_load(runtime)
            errors += sum(counters.failed.count for counters in runtime.schema_counters.values())
            if len(levels) < _MOST_LEVELS:
                levels[runtime.name] = seats / max(1, runtime.shared.limits.nominal)
        if not self._controller.is_passing:
            self._refused += max(0, rejected - self._rejected)
        self._rejected = rejected
        return LoadSample(wanted / max(1, self._seats()), served, errors + self._refused, self._cpu(), levels)

    def __repr__(self) -> str:
        return f"<LoadReports {self._meter!r}>"
