"""Virtual time around one queue set: calls arrive, run for their durations, and are released.

Events at the same instant happen in the order of `Rank`, and within a rank in the order in which they were scheduled:
the order of the golden traces.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import partial

from apf_middleware.exceptions import ClockError, InvalidValueError, require_integer
from apf_middleware.fairqueuing import QueueSet, QueueSetSettings, Reason, Ticket, Work
from apf_middleware.runtime.event_queue import EventQueue

__all__ = ["Call", "Rank", "World"]


class Rank(IntEnum):
    """The order of events at one instant."""

    VACATE = 0
    FINISH = 1
    ABANDON = 2
    RECONFIGURE = 3
    ARRIVE = 4
    OBSERVE = 5


class Call(Ticket):
    """A ticket with the duration of its request, and callbacks for what happens to it."""

    __slots__ = ("duration_ns", "finished_at", "on_finish", "on_seated", "on_vacated", "released_at")

    def __init__(
        self,
        flow: str,
        entropy: int,
        work: Work,
        duration_ns: int,
        *,
        on_seated: "Callable[[Call], None] | None" = None,
        on_finish: "Callable[[Call], None] | None" = None,
        on_vacated: "Callable[[Call], None] | None" = None,
    ) -> None:
        super().__init__(flow, entropy, work)
        self.duration_ns: int = require_integer("duration_ns", duration_ns, least=0)
        self.on_seated: Callable[[Call], None] | None = on_seated
        self.on_finish: Callable[[Call], None] | None = on_finish
        self.on_vacated: Callable[[Call], None] | None = on_vacated
        self.finished_at: int | None = None
        self.released_at: int | None = None


class World:
    """Drives ``queueset`` through virtual time, starting at ``now``."""

    def __init__(self, queueset: QueueSet, now: int = 0) -> None:
        self.queueset = queueset
        self._events = EventQueue(require_integer("now", now))

    @property
    def now(self) -> int:
        """The time of the event that is happening."""
        return self._events.now

    def at(self, time: int, action: Callable[[], None], rank: Rank = Rank.OBSERVE) -> None:
        """Call ``action`` at ``time``."""
        require_integer("time", time)
        if time < self.now:
            raise ClockError("time", time, f"it must not be before now, {self.now}")
        self._events.at(time, _call, action, rank)

    def arrive_at(self, time: int, call: Call) -> None:
        """Let the call arrive at ``time``."""
        self.at(time, lambda: self.arrive(call), Rank.ARRIVE)

    def abandon_at(self, time: int, call: Call, reason: Reason = Reason.TIME_OUT) -> None:
        """Let the call give up at ``time``, if it still waits then."""
        self.at(time, lambda: self.abandon(call, reason), Rank.ABANDON)

    def reconfigure_at(self, time: int, settings: QueueSetSettings) -> None:
        """Change the settings at ``time``."""
        self.at(time, lambda: self.reconfigure(settings), Rank.RECONFIGURE)

    def run(self, until: int | None = None) -> None:
        """Run all events, or those up to and including ``until``."""
        self._events.run(until)

    def arrive(self, call: Call) -> None:
        """Let the call arrive now."""
        self._seat(self.queueset.arrive(self.now, call))

    def abandon(self, call: Call, reason: Reason = Reason.TIME_OUT) -> None:
        """Let the call give up now, if it waits."""
        if call.is_waiting:
            call.finished_at = self.now
            self._seat(self.queueset.abandon(self.now, call, reason))

    def reconfigure(self, settings: QueueSetSettings) -> None:
        """Change the settings now."""
        self._seat(self.queueset.reconfigure(self.now, settings))

    def _seat(self, seated: Iterable[Ticket]) -> None:
        """Run the calls that were seated: each finishes after its duration."""
        for call in seated:
            if not isinstance(call, Call):
                raise InvalidValueError("ticket", call, "a world can only run a Call")
            if call.on_seated is not None:
                call.on_seated(call)
            self.at(self.now + call.duration_ns, partial(self._finish, call), Rank.FINISH)

    def _finish(self, call: Call) -> None:
        call.finished_at = self.now
        seated = self.queueset.release(self.now, call)
        if call.on_finish is not None:
            call.on_finish(call)
        linger = call.work.linger_ns
        if linger:
            self.at(self.now + linger, lambda: self._vacate(call), Rank.VACATE)
        self._seat(seated)
        if not linger:
            self._vacated(call)

    def _vacate(self, call: Call) -> None:
        seated = self.queueset.tick(self.now)
        self._vacated(call)
        self._seat(seated)

    def _vacated(self, call: Call) -> None:
        call.released_at = self.now
        if call.on_vacated is not None:
            call.on_vacated(call)


def _call(action: Callable[[], None]) -> None:
    action()
