"""One configuration at work behind a middleware: levels, reception, metrics, and what must be seen to now and then."""

import logging
import time
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from prometheus_client import CollectorRegistry

from apf_middleware import __version__
from apf_middleware.asgi.identity import Authenticator, build_chain
from apf_middleware.asgi.lifespan import Signals, caller_on_loop
from apf_middleware.asgi.reception import Reception
from apf_middleware.asgi.responses import Labels
from apf_middleware.asgi.scrape import Scrape
from apf_middleware.config import Configuration
from apf_middleware.metrics import ServerPicture
from apf_middleware.runtime import Controller, RejectionLog, picture_server, tell

__all__ = ["Service"]

_HOUSEKEEPING_NS: Final = 10**9


class Service:
    """What stands behind one middleware. ``due`` is when `keep_house` wants to be called next."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        authenticators: Iterable[Authenticator] = (),
        registry: CollectorRegistry | None = None,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.configuration = configuration
        self.now = now
        self.labels = Labels(configuration.server.responses)
        self.controller = Controller(configuration, now=now)
        chain = build_chain(configuration.server, authenticators)
        self.reception = Reception(configuration, self.controller, chain, self.labels)
        self.scrape = Scrape(self.picture, configuration.server.metrics, chain, registry)
        self.rejections = RejectionLog(now)
        self.chance = Random()  # noqa: S311 - it spreads clients over time and guards nothing
        self.due = now() + _HOUSEKEEPING_NS
        self._signals = Signals()

    def keep_house(self, now: int) -> None:
        """See to what needs no more than a look a second: files that may have changed, numbers to be published."""
        self.due = now + _HOUSEKEEPING_NS
        self.reception.refresh()
        self.scrape.publish()

    def picture(self) -> ServerPicture:
        """Everything as it is now, for metrics."""
        return picture_server(self.controller, authentication_failures=self.reception.refused, version=__version__)

    def begin(self) -> None:
        """The server starts."""
        self.controller.open()
        self._signals.listen(caller_on_loop(self.controller.close))
        tell(logging.INFO, "apf.started", seats=self.configuration.server.seats, levels=len(self.configuration.levels))

    def end(self) -> None:
        """The server stops."""
        self._signals.forget()
        self.controller.close()
        self.scrape.close()
        self.rejections.summarize()
        tell(logging.INFO, "apf.stopped")
