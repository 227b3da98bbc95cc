"""The service behind a middleware: levels, resolver, metrics, reloads and periodic housekeeping of a configuration."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from starlette.types import Receive, Scope, Send

from apf_middleware._version import __version__
from apf_middleware.asgi.fleet_notices import FleetNotices, NoticeReceiver
from apf_middleware.asgi.identity import Authenticator, build_chain
from apf_middleware.asgi.lifespan import ParentWatch, Serving
from apf_middleware.asgi.load_reports import LoadReports
from apf_middleware.asgi.passing import Passing
from apf_middleware.asgi.readiness import ReadinessProbe
from apf_middleware.asgi.rejections import RejectionAnswers
from apf_middleware.asgi.reload import NO_FILES, ConfigurationOrigin, PreparedConfiguration, Reloader
from apf_middleware.asgi.request_deadlines import build_deadlines
from apf_middleware.asgi.request_observers import RequestObservers
from apf_middleware.asgi.resolver import RequestResolver
from apf_middleware.asgi.responses import Answer
from apf_middleware.asgi.scope import asks_for
from apf_middleware.asgi.scrape import Scrape
from apf_middleware.asgi.shadow_control import ShadowControl
from apf_middleware.asgi.signals import Signals
from apf_middleware.asgi.startup_gates import StartupGates
from apf_middleware.asgi.telemetry import build_tracing, choose_wait
from apf_middleware.asgi.wall_offset import WallOffset
from apf_middleware.config import Configuration, ConfigurationError, Problem
from apf_middleware.config.admin import AdminSettings
from apf_middleware.config.estimation import Sources
from apf_middleware.config.objects import Level
from apf_middleware.config.sockets import chosen_directory
from apf_middleware.estimation import Inventory
from apf_middleware.exceptions import UnknownGateError
from apf_middleware.metrics import ServerReading
from apf_middleware.mode import Mode
from apf_middleware.runtime import Controller, NamedQueues, RejectionLog, log_event, read_server
from apf_middleware.runtime.alarm import Alarm
from apf_middleware.runtime.event_loop import EventLoop
from apf_middleware.runtime.event_loop_monitor import EventLoopMonitor
from apf_middleware.runtime.request_kinds import KindSampler
from apf_middleware.runtime.running_requests import RunningRequests

if TYPE_CHECKING:
    from apf_middleware.asgi.admin import Admin
    from apf_middleware.asgi.control_socket import ControlSocket, Responder
    from apf_middleware.asgi.fleet import Fleet
    from apf_middleware.asgi.identity import Chain
    from apf_middleware.asgi.request_deadlines import RequestDeadlines
    from apf_middleware.asgi.telemetry import WaitFunction
    from apf_middleware.asgi.tracing import Tracing
    from apf_middleware.gates import Gates
    from apf_middleware.metrics import FleetReading

__all__ = ["Service"]

_HOUSEKEEPING_NS: Final = 10**9
_IDLE_NS: Final = 5 * 10**9  # between two publications of a worker without requests


class Service:
    """The parts behind one middleware. ``due`` is the time of the next call of `keep_house`.

    ``origin`` is where ``configuration`` was read from. ``inventory`` returns the number of objects of a kind.
    ``gates`` are defined by the app. ``on_adopt`` is called after another configuration has been put in force.
    """

    admin: "Admin | None" = None
    own_paths: tuple[str, ...]
    deadlines: "RequestDeadlines | None"
    is_observed: bool = False  # whether there are observers
    load_reports: LoadReports | None = None
    passing: Passing | None
    _probe: ReadinessProbe | None = None

    def __init__(
        self,
        configuration: Configuration,
        *,
        authenticators: Iterable[Authenticator] = (),
        registry: CollectorRegistry | None = None,
        inventory: Inventory = lambda _: None,
        now: Callable[[], int] = time.monotonic_ns,
        origin: ConfigurationOrigin = NO_FILES,
        gates: "Gates | None" = None,
        on_adopt: Callable[[], None] = lambda: None,
    ) -> None:
        self.now: Callable[[], int] = now
        self._offset = WallOffset(now)
        self._authenticators = tuple(authenticators)
        self._on_adopt = on_adopt
        self.tracing: Tracing | None = build_tracing(configuration)
        self.wait: WaitFunction = choose_wait(self.tracing)
        self.running: RunningRequests = RunningRequests(now())
        self.control_socket: ControlSocket | None = _build_control_socket(configuration, self._answer_owner)
        costs, running = configuration.server.estimation.learning.costs(), self._asked_running(configuration)
        self.controller: Controller = Controller(configuration, gates, costs=costs, running=running, now=now)
        self._reloader = Reloader(
            origin, self.controller, prepare=self.prepare, adopt=self.adopt, publish_soon=self.publish_soon
        )
        self.notices: FleetNotices = FleetNotices(self.controller)
        self.observers: RequestObservers = RequestObservers(self._adopt_observers)
        self.startup_gates: StartupGates = StartupGates(self.controller)
        self.queues: NamedQueues = NamedQueues(self.controller, self._adopt_live, self.notices.tell_queue)
        self._sources = Sources(costs, inventory, self.controller.watches.interested, self.controller.count_watches)
        self.resolver: RequestResolver = self._build_resolver(configuration)
        self.scrape: Scrape = Scrape(self.reading, configuration.server.metrics, self.chain, registry, now)
        self.shadow: ShadowControl = self._build_shadow(inventory, origin)
        self.fleet: Fleet | None = self._build_fleet()
        self._build_parts(configuration)
        self._build_monitors()
        self._build_passing(configuration.server.mode)
        self.shadow.adopt(self.resolver, self.shadow.read(configuration))
        self.scrape.register()  # last, because another thread may read the registry at once

    def _build_monitors(self) -> None:
        """Build the parts that follow the load and the process, and that a reload keeps."""
        now = self.now
        self.passed: Counter[str] = Counter(observe=0, off=0)
        self.rejection_answers: RejectionAnswers = RejectionAnswers(self.resolver.response_headers)
        self.rejections: RejectionLog = RejectionLog(now)
        self.event_loop: EventLoopMonitor = EventLoopMonitor(self.controller, self._rest)
        self.due: int = now()
        self._looked_at = self.due
        self._kinds = KindSampler(lambda: self.controller.registry.shown, now, self._rest)
        self._publishing = Alarm(self._publish, now)
        self._signals = Signals()
        self._parent = ParentWatch(now)

    def _build_parts(self, configuration: Configuration, before: "RequestDeadlines | None" = None) -> None:
        """Build the parts that only some configurations have; deadlines count on from those ``before``."""
        server = configuration.server
        self.admin = self._build_admin(server.admin)
        self.deadlines = build_deadlines(configuration, self.chain, self.controller.costs, before)
        reports, readiness = server.load_reports, server.readiness
        # Parts with the same settings stay, because they know what the load was.
        if reports is None:
            self.load_reports = None
        elif (found := self.load_reports) is None or (found.settings, found.chain) != (reports, self.chain):
            self.load_reports = LoadReports(reports, self.controller, self.chain, self._seats)
        if readiness is None:
            self._probe = None
        elif self._probe is None or self._probe.settings != readiness:
            self._probe = ReadinessProbe(readiness, self.controller)
        self.own_paths = self._own_paths()

    def _build_admin(self, settings: AdminSettings) -> "Admin | None":
        """Return the admin; None if it could not be asked so far, neither over HTTP nor on a control socket.

        An admin that is switched off stays, in order to refuse requests that are on their way to it.
        """
        if not settings.is_on and self.control_socket is None and self.admin is None:
            return None
        from apf_middleware.asgi.admin_pages import build_admin  # noqa: PLC0415 - large, and most servers have none

        return build_admin(self, settings, self._offset)

    def _build_shadow(self, inventory: Inventory, origin: ConfigurationOrigin) -> ShadowControl:
        return ShadowControl(
            self.controller,
            self.resolver,
            self.observers,
            inventory,
            force=self._reloader.force,
            sources=origin.sources,
            read_parts=lambda: None if self.fleet is None else self.fleet.participant.parts(),
        )

    def _build_fleet(self) -> "Fleet | None":
        """Return this process's part in its fleet; None if the configuration has none."""
        settings = self.configuration.server.fleet
        if settings is None:
            return None
        from apf_middleware.asgi.fleet import build_fleet  # noqa: PLC0415 - most servers have no fleet

        receiver = NoticeReceiver(
            self.controller, self.queues, self.shadow, switch=self.switch, reload=self._reloader.ask
        )
        return build_fleet(self.controller, settings, receiver.apply, self.shadow.follow_fleet)

    def _build_resolver(self, configuration: Configuration, before: RequestResolver | None = None) -> RequestResolver:
        """Return the resolver of a configuration, which counts on from the one ``before``."""
        old, new = self.configuration.server, configuration.server
        stays = (old.authentication, old.trusted_proxies) == (new.authentication, new.trusted_proxies)
        # the one before may have fetched keys
        chain = before.chain if stays and before is not None else build_chain(new, self._authenticators)
        return RequestResolver(configuration, self.controller, chain, sources=self._sources, before=before)

    def _own_paths(self) -> tuple[str, ...]:
        """Return the prefixes of the paths that the middleware itself serves."""
        admin, others = self.configuration.server.admin, (self.load_reports, self._probe)
        paths = [self.scrape.path, admin.path if admin.is_on else None]
        paths += [one.path for one in others if one is not None]
        return tuple(path for path in paths if path)

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self.controller.configuration

    @property
    def chain(self) -> "Chain":
        """The authenticators in force."""
        return self.resolver.chain

    def _read_fleet(self) -> "FleetReading | None":
        return None if self.fleet is None else self.fleet.participant.reading()

    def _seats(self) -> int:
        """Return the seats of this server now; in a fleet, those that are granted to it."""
        reading = self._read_fleet()
        return self.controller.sharing.seats if reading is None else reading.granted

    def answer_balancer(self, scope: Scope, now: int) -> Answer | None:
        """Return the answer to a balancer's question about the load; None if the request is another one."""
        for one in (self.load_reports, self._probe):
            if one is not None and asks_for(scope, one.path):
                return one.answer(now)
        return None

    @property
    def beside(self) -> tuple[Serving, ...]:
        """The services that run beside the app, from its startup to its shutdown."""
        return tuple(one.serve for one in (self.control_socket, self.fleet) if one is not None)

    def keep_house(self, now: int) -> None:
        """Do the work that is due about once a second: refresh changed files, and schedule publications."""
        looks = now >= self._looked_at + _HOUSEKEEPING_NS
        if looks:
            self._looked_at = now
        next_due = self._looked_at + _HOUSEKEEPING_NS  # an early call, after an idle time, must not delay the next one
        # On the short way, the mode isn't looked at.
        self.due = next_due if self.passing is None else 0
        self.controller.home.find()
        self.scrape.find_loop()
        if self.scrape.is_read:
            self._kinds.begin()
        if self.scrape.is_shared:
            self._publishing.ask(next_due)  # the next request after that calls this method again
        if self.fleet is not None:
            self.fleet.participant.warn_if_absent()
        if looks:
            self.resolver.refresh()
            self.shadow.follow_fleet()
            self.running.age(now)
        if self.event_loop.is_on:
            self.event_loop.begin()

    def _rest(self) -> None:
        """Make the next request call `keep_house`, because the server is idle."""
        self.due = self.now()

    def _publish(self) -> None:
        """Publish the numbers for other workers, and schedule the next publication.

        Some numbers also change while all levels are idle: ratios over time, and what the rest of the fleet decides.
        """
        self.scrape.publish()
        levels = [runtime.shared for runtime in self.controller.registry.shown]
        is_idle = all(shared.queueset.is_idle and shared.alone is None for shared in levels)
        self._publishing.ask(self.now() + (_IDLE_NS if is_idle else _HOUSEKEEPING_NS))

    def publish_soon(self) -> None:
        """Publish a change that isn't due to a request about as soon as one that is."""
        if self.scrape.is_shared and not self.controller.is_closing:  # at the end, everything is published anyway
            self._publishing.ask(self.now() + _HOUSEKEEPING_NS)

    def reading(self) -> ServerReading:
        """Return the current state of the server, for metrics."""
        criticality = None if self.resolver.criticality is None else self.resolver.criticality.reader
        return read_server(self.controller, self.queues, self._read_fleet())._replace(
            authentication_failures=self.resolver.refused,
            failing_sources=self.chain.failing_sources(),
            configuration_loads=dict(self._reloader.loads),
            has_broken_configuration=self._reloader.error is not None,
            version=__version__,
            unknown_queues=dict(self.resolver.unknown_queues),
            invalid_headers={} if self.deadlines is None else dict(self.deadlines.reader.invalid),
            invalid_criticality={} if criticality is None else dict(criticality.invalid),
            lowered_criticality={} if criticality is None else dict(criticality.lowered),
            request_kinds=self._kinds.times(),
            event_loop=self.event_loop.reading(),
            mode=self.mode,
            passed=dict(self.passed),
            shadow=self.shadow.reading(),
        )

    # Changes of the configuration

    @property
    def mode(self) -> Mode:
        """Whether requests are limited now, only observed, or only counted."""
        return "on" if self.passing is None else self.passing.mode

    def _build_passing(self, mode: Mode) -> None:
        self.passing = None if mode == "on" else Passing(mode, self.now, self.rejections, self.passed, self.observers)
        self.controller.is_passing = mode != "on"

    def switch(self, mode: Mode) -> None:
        """Limit requests, observe only, or be off, from now on; what waits runs at once, and nothing is rejected."""
        before = self.mode
        if mode == before:
            return
        passing = self.passing
        self._build_passing(mode)
        passed = self.controller.let_pass()
        if passing is None:
            self.passed[mode] += passed
        else:
            passing.end()
        self.due = 0
        self.publish_soon()
        log_event(logging.WARNING, "apf.switched", mode=mode, before=before)

    async def reload(self) -> bool:
        """Read the configuration again and put it in force; False if it has errors and nothing changes.

        In a fleet, the other members do the same.

        Raises:
            InvalidValueError: the configuration was not read from files.
        """
        is_in_force = await self._reloader.reload()
        if is_in_force:
            self.notices.tell_reload()
        return is_in_force

    @property
    def last_reload_error(self) -> ConfigurationError | None:
        """The error of the last configuration that was read; None if it is in force."""
        return self._reloader.error

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The warnings of the configuration in force, and the errors of a later one that was refused."""
        error = self._reloader.error
        return (*self._reloader.warnings, *(error.problems if error is not None else ()))

    def prepare(self, configuration: Configuration) -> PreparedConfiguration:
        """Build the objects for another configuration of files before it is in force; threads may call this."""
        shadow = self.shadow.read(configuration)
        # What only some configurations need is imported here, not in the event loop's thread.
        self._build_admin(configuration.server.admin)
        if configuration.has_gates:
            from apf_middleware.runtime import configured_gates, gate_runner  # noqa: F401, PLC0415
        return self._make(configuration, self.queues.reload(configuration))._replace(shadow=shadow)

    def _make(self, files: Configuration, configuration: Configuration) -> PreparedConfiguration:
        resolver = self._build_resolver(configuration, self.resolver)
        return PreparedConfiguration(
            files, configuration, resolver, build_tracing(configuration), self.shadow.configured
        )

    def adopt(self, prepared: PreparedConfiguration) -> None:
        """Put another configuration in force in one step; waiting and running requests are kept."""
        # From here on nothing is awaited, so the queues can't change between this check and `_put_in_force`.
        if prepared.configuration != self.queues.reload(prepared.files):  # queues have changed meanwhile
            prepared = self.prepare(prepared.files)
        self._put_in_force(prepared)
        self.queues.note_in_force(prepared.files)

    def _adopt_live(self, configuration: Configuration) -> None:
        """Put a configuration with live changes of queues in force."""
        self.publish_soon()
        if _without_states(configuration) == _without_states(self.configuration):
            self.controller.reconfigure(configuration)  # the resolver stays valid: requests are routed as before
        else:
            self._put_in_force(self._make(self.queues.files, configuration))

    def _put_in_force(self, prepared: PreparedConfiguration) -> None:
        before = self.configuration.server.mode
        # This comes first, because it may raise: then nothing has changed.
        self.controller.reconfigure(prepared.configuration)
        self.rejection_answers = RejectionAnswers(prepared.resolver.response_headers)
        prepared.configuration.server.estimation.learning.apply_to(self.controller.costs)
        self.tracing = prepared.tracing
        self.wait = choose_wait(prepared.tracing)
        # The targets are assigned from left to right, so this sets the successor of the old resolver. Requests that it
        # is resolving now find the successor after their next await.
        self.resolver.successor, self.resolver = prepared.resolver, prepared.resolver
        self.scrape.adopt(prepared.configuration.server.metrics, self.chain)
        self._build_parts(prepared.configuration, self.deadlines)
        self.event_loop.adopt()
        if (mode := prepared.configuration.server.mode) != before:  # otherwise what an operator has set stays
            self.switch(mode)
        self.controller.record(self._asked_running(prepared.configuration))
        self.shadow.adopt(prepared.resolver, prepared.shadow)
        # last, because the middleware reads the configuration and the tracing from here
        self._on_adopt()

    def _asked_running(self, configuration: Configuration) -> RunningRequests | None:
        """Return the record of running requests if the admin may be asked for them; recording costs a little."""
        self.running.shown = configuration.server.admin.is_on or self.control_socket is not None
        if not self.running.shown:
            self.running.admissions.clear()  # their ends won't be recorded
        return self.running if self.running.shown or self.is_observed else None

    def _adopt_observers(self) -> None:
        """Show requests to observers from the next one on, or no longer."""
        self.is_observed = bool(self.observers)
        self.controller.record(self._asked_running(self.configuration))
        self.due = 0

    async def _answer_owner(self, scope: Scope, receive: Receive, send: Send, peer: str) -> None:
        admin = self.admin  # read here, because a reload replaces it
        assert admin is not None  # as there is a control socket
        await admin.answer_owner(scope, receive, send, peer)

    # Start and end of the server

    def begin(self) -> None:
        """Start with the server: open the levels, handle signals and watch for changes."""
        self.scrape.register()
        self.controller.open()
        self.startup_gates.begin()
        self.controller.home.find()
        self.scrape.find_loop()
        self._signals.listen(partial(EventLoop().post, self.controller.close), self._remove_socket)
        self._parent.start(self.controller.close)
        self._reloader.begin()
        self.scrape.publish()
        self.publish_soon()
        log_event(
            logging.INFO, "apf.started", seats=self.configuration.server.total, levels=len(self.configuration.levels)
        )

    def ready(self) -> None:
        """Raise an APFError if a gate is missing after the startup of the app."""
        try:
            self.startup_gates.require()
        except UnknownGateError as error:
            raise self._reloader.located(error) from None

    def close(self) -> None:
        """Remove what exists for one run of the app only: its gates, metrics and the control socket's file."""
        self.startup_gates.remove()
        self.scrape.unregister()
        self._remove_socket()

    def _remove_socket(self) -> None:
        if self.control_socket is not None:
            self.control_socket.remove()

    def end(self) -> None:
        """Stop with the server: close the levels, restore signal handlers and publish the final numbers."""
        self._reloader.end()
        self._signals.forget()
        self._parent.stop()
        # before the last publication, so that it includes the rejected requests
        self.controller.close()
        # before the files are closed, because a later publication would begin new files, which would remain
        self._publishing.cancel()
        self._kinds.end()
        self.event_loop.end()
        self.scrape.close()
        self.rejections.summarize()
        log_event(logging.INFO, "apf.stopped")

    async def finish(self) -> None:
        """Complete the `end` asynchronously: give back what gates hold on other servers."""
        if self.controller.gate_runner is not None:
            await self.controller.gate_runner.aclose()


def _build_control_socket(configuration: Configuration, respond: "Responder") -> "ControlSocket | None":
    """Return the control socket, if there is a directory for it."""
    settings = configuration.server.admin
    directory = chosen_directory(settings.socket)
    if directory is None:
        return None
    from apf_middleware.asgi.control_socket import ControlSocket  # noqa: PLC0415 - it needs uvicorn

    return ControlSocket(directory, settings.app, respond)


def _without_states(configuration: Configuration) -> dict[str, Level]:
    """Return the levels without the states of their queues, on which a resolver doesn't depend."""
    return {name: replace(level, state="open") for name, level in configuration.levels.items()}
