"""One configuration at work behind a middleware: levels, reception, metrics, and what must be seen to now and then."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from random import Random
from typing import Final

from prometheus_client import CollectorRegistry

from apf_middleware import __version__
from apf_middleware.asgi.admin import Admin
from apf_middleware.asgi.identity import Authenticator, build_chain
from apf_middleware.asgi.lifespan import Signals, caller_on_loop
from apf_middleware.asgi.reception import Reception
from apf_middleware.asgi.reload import Fresh, Reloader
from apf_middleware.asgi.responses import Labels
from apf_middleware.asgi.scrape import Scrape
from apf_middleware.config import Configuration, ConfigurationError, Problem
from apf_middleware.config.estimation import Sources
from apf_middleware.gates import Gates
from apf_middleware.metrics import ServerPicture
from apf_middleware.runtime import Controller, GatedController, RejectionLog, picture_server, tell
from apf_middleware.runtime.top_flows import Roll

__all__ = ["Service"]

_HOUSEKEEPING_NS: Final = 10**9


class Service:
    """What stands behind one middleware. ``due`` is when `keep_house` wants to be called next.

    ``sources`` are the paths that ``configuration`` was read from, if it was; with ``watch`` they are read again when
    they change. ``warnings`` are what reading has found odd. ``gates`` are those that the app has defined.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        authenticators: Iterable[Authenticator] = (),
        registry: CollectorRegistry | None = None,
        now: Callable[[], int] = time.monotonic_ns,
        sources: Sequence[str | PathLike[str]] = (),
        watch: bool = False,
        warnings: Sequence[Problem] = (),
        gates: Gates | None = None,
    ) -> None:
        self.configuration = configuration
        self.now = now
        self._authenticators = tuple(authenticators)
        self._reloader = Reloader(self, sources, watch=watch, warnings=warnings)
        self.labels = Labels(configuration.server.responses)
        if gates is None and not configuration.has_gates:
            self.controller = Controller(configuration, now=now)
        else:
            self.controller = GatedController(configuration, gates, now=now)
        self.chain = build_chain(configuration.server, self._authenticators)
        self._sources = Sources(configuration.server.estimation.learning.costs())
        self.reception = Reception(configuration, self.controller, self.chain, self.labels, sources=self._sources)
        self.controller.costs = self.reception.learned
        self.roll = Roll(now())
        self.admin = Admin(self, configuration.server.admin)
        self._keep_roll()
        self.scrape = Scrape(self.picture, configuration.server.metrics, self.chain, registry)
        self.rejections = RejectionLog(now)
        self.chance = Random()  # noqa: S311 - it spreads clients over time and guards nothing
        self.due = now() + _HOUSEKEEPING_NS
        self._signals = Signals()

    def keep_house(self, now: int) -> None:
        """See to what needs no more than a look a second: files that may have changed, numbers to be published."""
        self.due = now + _HOUSEKEEPING_NS
        self.reception.refresh()
        self.roll.age(now)
        self.scrape.publish()

    def picture(self) -> ServerPicture:
        """Everything as it is now, for metrics."""
        return picture_server(
            self.controller,
            authentication_failures=self.reception.refused,
            version=__version__,
            configuration_loads=self._reloader.loads,
        )

    # Another configuration

    async def reload(self) -> bool:
        """Read the configuration again; False if something is wrong with it, and all stays as it was.

        InvalidValueError if it didn't come from files.
        """
        return await self._reloader.reload()

    @property
    def last_reload_error(self) -> ConfigurationError | None:
        """What was wrong with the last configuration that was read; None if it is in force."""
        return self._reloader.error

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The warnings of the configuration in force, and the errors of one that was refused since."""
        error = self._reloader.error
        return (*self._reloader.warnings, *(error.problems if error is not None else ()))

    def prepare(self, configuration: Configuration) -> Fresh:
        """What can be made of another configuration before it is in force; a thread may do it."""
        old, new = self.configuration.server, configuration.server
        stays = (old.authentication, old.trusted_proxies) == (new.authentication, new.trusted_proxies)
        chain = self.chain if stays else build_chain(new, self._authenticators)  # it may have fetched keys
        labels = Labels(new.responses)
        reception = Reception(
            configuration, self.controller, chain, labels, sources=self._sources, refused=self.reception.refused
        )
        return Fresh(configuration, chain, labels, reception)

    def adopt(self, fresh: Fresh) -> None:
        """Put another configuration in force: one step, in which nobody waits or runs less than before."""
        self.controller.reconfigure(fresh.configuration)
        self.configuration, self.chain, self.labels = fresh.configuration, fresh.chain, fresh.labels
        self.reception.successor, self.reception = fresh.reception, fresh.reception
        self.controller.costs = fresh.reception.learned
        self.scrape.adopt(fresh.configuration.server.metrics, fresh.chain)
        self.admin = Admin(self, fresh.configuration.server.admin)
        self._keep_roll()

    def _keep_roll(self) -> None:
        """The roll costs a little per request, so it is kept only where somebody may ask for it."""
        self.controller.roll = self.roll if self.configuration.server.admin.is_on else None

    # The server's beginning and end

    def begin(self) -> None:
        """The server starts."""
        self.controller.open()
        self._signals.listen(caller_on_loop(self.controller.close))
        self._reloader.begin()
        tell(logging.INFO, "apf.started", seats=self.configuration.server.seats, levels=len(self.configuration.levels))

    def end(self) -> None:
        """The server stops."""
        self._reloader.end()
        self._signals.forget()
        self.controller.close()
        self.scrape.close()
        self.rejections.summarize()
        tell(logging.INFO, "apf.stopped")
