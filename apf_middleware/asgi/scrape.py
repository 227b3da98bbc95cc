"""The metrics endpoint for Prometheus: at a path of the middleware, or through a registry of the app.

For several workers the environment variable PROMETHEUS_MULTIPROC_DIR is set. Each worker then publishes its numbers to
files, and any worker can answer for all of them.
"""

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry
from starlette.types import Scope, Send

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.own_thread import run_in_own_thread
from apf_middleware.asgi.responses import Answer, send_answer, uncached_answer
from apf_middleware.asgi.scope import HeaderView
from apf_middleware.config.metrics import MetricsSettings
from apf_middleware.metrics import (
    DIRECTORY_VARIABLE,
    APFCollector,
    Publisher,
    Rendering,
    Renderings,
    ServerReading,
    accepts_gzip,
    compress,
    preferred_format,
    render,
    scrape,
)
from apf_middleware.runtime import log_event
from apf_middleware.runtime.event_loop import EventLoop

__all__ = ["Scrape"]

T = TypeVar("T")


class Scrape:
    """The endpoint that serves the results of ``read``, or a collector of them for a ``registry`` instead.

    ``path`` is that of the endpoint; None if the middleware serves no metrics.
    """

    def __init__(
        self,
        read: Callable[[], ServerReading],
        settings: MetricsSettings,
        chain: Chain,
        registry: CollectorRegistry | None,
        now: Callable[[], int],
    ) -> None:
        self._now, self._renderings = now, Renderings()
        self._settings = settings
        self._chain = chain
        self._path_is_own = registry is None
        self.path: str | None = settings.served_path if self._path_is_own else None
        self._collector = APFCollector(read, settings.prefix, self._run_on_loop)
        self._loop: EventLoop | None = None  # set if the app reads its own registry, which it may do in any thread
        self._directory = os.environ.get(DIRECTORY_VARIABLE)
        self._publisher = Publisher(read, settings.prefix, self._directory) if self._directory else None
        self._has_failed = False  # the last publication
        self._registry = registry if self._publisher is None else None
        self._is_registered = False

    def register(self) -> None:
        """Add the metrics to the app's registry, if there is one; InvalidValueError if it has such metrics already."""
        if self._registry is not None and not self._is_registered:
            self._collector.register(self._registry)
            self._is_registered = True

    def unregister(self) -> None:
        """Remove the metrics from the app's registry, so that another app, as in the next test, can add its own."""
        if self._registry is not None and self._is_registered:
            self._registry.unregister(self._collector)
            self._is_registered = False

    def adopt(self, settings: MetricsSettings, chain: Chain) -> None:
        """Put other settings in force; metrics keep the prefix that they had at the start."""
        self._settings = settings
        self._chain = chain
        if self._path_is_own:
            self.path = settings.served_path

    def find_loop(self) -> None:
        """Remember the event loop of this thread as the one that serves requests."""
        if not self._path_is_own and (self._loop is None or not self._loop.is_here):
            self._loop = EventLoop.running()

    def _run_on_loop(self, collect: Callable[[], T]) -> T:
        return collect() if self._loop is None else self._loop.call(collect)

    @property
    def is_read(self) -> bool:
        """True if the metrics can be read."""
        return self.path is not None or not self._path_is_own or self.is_shared

    @property
    def is_shared(self) -> bool:
        """True if the numbers are published for other workers."""
        return self._publisher is not None

    def publish(self) -> None:
        """Publish the numbers for other workers, if there may be other workers; a failure is logged once."""
        if self._publisher is not None:
            self._attempt(self._publisher.publish)

    def close(self) -> None:
        """Publish the final numbers when the worker ends: its counters remain, its gauges are removed."""
        if self._publisher is not None:
            self._attempt(self._publisher.close)

    def _attempt(self, publish: Callable[[], None]) -> None:
        """Publish; a directory that is full or was removed must not end the server, nor keep the app from its end."""
        try:
            publish()
        except OSError as error:
            if not self._has_failed:
                log_event(logging.ERROR, "apf.metrics-failed", directory=self._directory, error=error)
            self._has_failed = True
        else:
            self._has_failed = False

    async def answer(self, scope: Scope, send: Send) -> None:
        if not self._settings.exposes_to(self._chain.client_address(scope)):
            await send_answer(_FORBIDDEN, scope, send)
            return
        found = await self._rendering(HeaderView(scope))
        more = [(b"content-encoding", b"gzip")] if found.is_gzip else []
        fields = [(b"content-type", found.content_type.encode()), (b"content-length", b"%d" % len(found.body)), *more]
        await send_answer(Answer(200, [*fields, (b"vary", b"accept, accept-encoding")], found.body), scope, send)

    async def _rendering(self, headers: HeaderView) -> Rendering:
        """Return the metrics as the request wants them; the last ones again, if they are asked for very often."""
        accept, encoding = preferred_format(headers.get("accept", "")), headers.get("accept-encoding", "")
        key, now = (accept, accepts_gzip(encoding)), self._now()
        found = self._renderings.find(now, key)
        if found is None:
            if self._directory and self._publisher is not None:
                self._publisher.publish()  # if this fails, the scrape does
                body, content_type = await run_in_own_thread(partial(scrape, self._directory, accept))
            else:
                body, content_type = render(accept, self._collector)
            body, is_gzip = compress(body, encoding)
            found = Rendering(body, content_type, is_gzip)
            self._renderings.keep(now, key, found)
        return found


_WHY: Final = (
    b"Metrics are for the networks in metrics.exposedTo of the Server document, and your address isn't among them.\n"
)
_FORBIDDEN: Final = uncached_answer(403, [(b"content-type", b"text/plain; charset=utf-8")], _WHY)
