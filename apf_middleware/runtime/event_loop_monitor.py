"""The event loop's lag on a live server, and the seats of its elastic levels.

It is measured if a level is elastic, or if the configuration says so.
"""

import logging
from collections.abc import Callable
from random import Random
from typing import Final

from apf_middleware.adaptive import ElasticControl
from apf_middleware.config.event_loop import EventLoopSettings
from apf_middleware.metrics.reading import ElasticReading, EventLoopReading
from apf_middleware.runtime.alarm import Alarm, AnyAlarm
from apf_middleware.runtime.controller import Controller
from apf_middleware.runtime.event_loop_lag import EventLoopLag
from apf_middleware.runtime.log import log_event

__all__ = ["EventLoopMonitor"]

_QUANTILES: Final = {"50": 0.5, "99": 0.99}


class EventLoopMonitor:
    """Measure the ``lag`` of the event loop, and let it decide the caps of the elastic levels of ``controller``.

    If it ``is_on``, `begin` has to be called when requests come. ``on_rest`` is called when there are none any more;
    then `begin` has to be called again.
    """

    def __init__(
        self,
        controller: Controller,
        on_rest: Callable[[], None],
        *,
        chance: Random | None = None,
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm] = Alarm,
    ) -> None:
        self._controller = controller
        self.lag: EventLoopLag = EventLoopLag(
            controller.now,
            is_busy=self._is_busy,
            on_rest=on_rest,
            on_probe=self._observe,
            chance=chance,
            alarm=alarm,
        )
        self.control: ElasticControl = ElasticControl(self.lag.suspicious_ns, controller.now())
        self.is_on: bool = False
        self._dispatched = 0
        self._seats = 0  # the total with which the limits of the levels were found
        self.adopt()

    def adopt(self) -> None:
        """Control the elastic levels of the controller's configuration from now on."""
        configuration, control, self._seats = self._controller.configuration, self.control, self._controller.seats
        server = configuration.server
        target = (EventLoopSettings() if server.event_loop is None else server.event_loop).lag_target_ns
        control.target_ns = self.lag.suspicious_ns = target
        had_caps = bool(control.caps)
        found = {}
        for name in configuration.elastic_levels:
            runtime = self._controller.levels.get(name)
            if runtime is not None:
                limits = runtime.shared.limits
                found[name] = limits.min, limits.nominal, min(limits.max, self._controller.seats)
        control.adopt(found)
        if had_caps:
            self._apply()
        self.is_on = server.event_loop is not None or bool(control.levels)

    def begin(self) -> None:
        """Begin to measure, because requests come; further calls do nothing."""
        if self.is_on:
            self.lag.begin()

    def end(self) -> None:
        """Stop measuring."""
        self.lag.end()

    def _is_busy(self) -> bool:
        """Return whether a request has been dispatched since the last call, or is there."""
        before, self._dispatched = self._dispatched, 0
        is_idle = True
        for runtime in self._controller.registry.shown:
            self._dispatched += runtime.dispatched
            is_idle = is_idle and runtime.shared.is_idle
        return self.is_on and not (is_idle and self._dispatched == before)

    def _observe(self, now: int, gap_ns: int, lag_ns: int) -> None:
        """Decide the caps after a probe."""
        if self._controller.seats != self._seats:
            self.adopt()  # the total of seats adapts
        control, levels = self.control, self._controller.levels
        if not control.levels:
            return
        for name, level in control.levels.items():
            runtime = levels.get(name)
            if runtime is not None:
                shared = runtime.shared
                level.note(shared.in_use, shared.queueset.waiting, runtime.dispatched)
        before = dict(control.caps)
        if control.decide(now, gap_ns, lag_ns):
            self._apply()
            if bool(before) is not bool(control.caps):
                event = "apf.elastic-levels-capped" if control.caps else "apf.elastic-levels-open"
                log_event(logging.INFO, event, levels=sorted(control.levels), target_ms=control.target_ns / 1e6)

    def _apply(self) -> None:
        # The seats stay taken for a moment after each request. Otherwise a request that never awaits anything would
        # give its seats back before any other that has become ready meanwhile can ask for them, and no cap would bind.
        self._controller.cap(self.control.caps, self.control.target_ns)

    def reading(self) -> EventLoopReading | None:
        """Return the lag and the elastic levels for metrics; None if the lag isn't measured."""
        if not self.is_on:
            return None
        levels = tuple(
            ElasticReading(
                name,
                level.most if level.cap is None else level.cap,
                level.reason.value,
                {reason.value: number for reason, number in level.changes.items()},
            )
            for name, level in self.control.levels.items()
        )
        return EventLoopReading({name: self.lag.quantile(part) for name, part in _QUANTILES.items()}, levels)

    def __repr__(self) -> str:
        return f"<EventLoopMonitor: {self.lag!r}, {self.control!r}>"
