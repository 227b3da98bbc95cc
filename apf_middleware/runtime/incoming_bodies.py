"""Requests that wait for their bodies and hold no seats meanwhile: bounded in number, bytes and time.

The client decides how fast a body arrives. A request that waits for its body therefore takes neither a seat nor a place
in a queue. The request still needs a connection, a task and a buffer, each of which is bounded:

- **Time.** A minimum number of bytes of each body must arrive in each window of fixed length; otherwise the request is
  ended.
- **Number.** When there is one request too many, one is ended. The level is chosen that has the most requests in
  proportion to its nominal seats, in this level the flow with the most requests, and of this flow the oldest request.
  So a flow that fills the places loses its own requests, and short requests of other flows still find a place.
- **Bytes.** A flow may buffer as many bytes as are still free. So one flow gets at most half of all bytes, and n flows
  get 1/(n + 1) each. A request that may buffer no more asks for seats with the part of the body that it has.

All of this is O(1) per request, except that all levels are compared when one request must be ended.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from apf_middleware.config.bodies import BodySettings
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.alarm import Alarm, AnyAlarm
from apf_middleware.runtime.event_loop import EventLoop
from apf_middleware.runtime.timeouts import Timeouts

if TYPE_CHECKING:
    from apf_middleware.classification import Classification

__all__ = ["HELD_NS", "IncomingBodies", "IncomingBody", "Suspendable"]

HELD_NS: Final = 100_000_000
"""The time after which a running request that waits for more of its body gives its seats back."""

Flow = tuple[str, str]
"""A flow by its schema and its distinguisher."""

_USUAL: Final = BodySettings()


class Suspendable(Protocol):
    """A request that can give its seats back while it waits for more of its body."""

    def suspend(self) -> None: ...


def _suspend(one: Suspendable) -> None:
    one.suspend()


def _nothing() -> None:
    """Do nothing, because the request isn't waiting yet."""


class IncomingBody:
    """A request that waits for its body; ``reason`` is the reason for which it was ended, or None.

    ``is_running`` means that the app already runs and waits for more of the body.
    """

    __slots__ = (
        "_interrupt",
        "_loop",
        "arrived",
        "flow",
        "is_counted",
        "is_running",
        "kept",
        "level",
        "reason",
        "until",
    )

    def __init__(self, classification: "Classification") -> None:
        self.level: str = classification.level
        self.flow: Flow = (classification.schema, classification.flow)
        self._interrupt: Callable[[], object] = _nothing
        self._loop: EventLoop | None = None
        self.reason: Reason | None = None
        self.is_running: bool = False
        self.is_counted: bool = False
        self.arrived: int = 0  # bytes, in this window
        self.until: int = 0  # the end of the window
        self.kept: int = 0  # bytes

    def begin_to_wait(self, interrupt: Callable[[], object]) -> None:
        """Note how the task that calls this is interrupted if the request has to end."""
        self._loop = EventLoop.running()
        self._interrupt = interrupt

    def end_to_wait(self) -> None:
        """Note that the task goes on, and must not be interrupted any more."""
        self._interrupt = _nothing

    def interrupt(self) -> None:
        """Interrupt the waiting task, in its own event loop."""
        if self._loop is None or self._loop.is_here:
            self._interrupt()
        else:  # if that loop has ended, so has the task
            self._loop.post(self._interrupt_if_waiting)

    def _interrupt_if_waiting(self) -> None:
        self._interrupt()  # the task may have gone on since this was posted

    def __repr__(self) -> str:
        return f"<IncomingBody of {self.flow} at {self.level}: {self.kept} bytes kept>"


class _Places:
    """The requests of one level by flow, and the flows by their number of requests."""

    __slots__ = ("_by_number", "_flows", "_most", "number")

    def __init__(self) -> None:
        # Dictionaries serve as ordered sets: the first key is the oldest one. A plain `dict` would find it in O(n),
        # because it passes over deleted keys.
        self._flows: dict[Flow, OrderedDict[IncomingBody, None]] = {}
        self._by_number: dict[int, OrderedDict[Flow, None]] = {}
        self._most = 0
        self.number: int = 0

    def enter(self, incoming: IncomingBody) -> None:
        own = self._flows.get(incoming.flow)
        if own is None:
            own = self._flows[incoming.flow] = OrderedDict()
        self._move(incoming.flow, len(own), len(own) + 1)
        own[incoming] = None
        self.number += 1
        self._most = max(self._most, len(own))

    def leave(self, incoming: IncomingBody) -> None:
        own = self._flows[incoming.flow]
        del own[incoming]
        self._move(incoming.flow, len(own) + 1, len(own))
        self.number -= 1
        if not own:
            del self._flows[incoming.flow]
        if self._most not in self._by_number:  # one step suffices, because this flow had one request more
            self._most -= 1

    def _move(self, flow: Flow, before: int, after: int) -> None:
        if before:
            same = self._by_number[before]
            del same[flow]
            if not same:
                del self._by_number[before]
        if after:
            self._by_number.setdefault(after, OrderedDict())[flow] = None

    def first(self) -> IncomingBody:
        """Return the oldest request of the flow with the most requests."""
        return next(iter(self._flows[next(iter(self._by_number[self._most]))]))

    def check(self) -> None:
        """Raise AssertionError if the indexes disagree."""
        numbers = {flow: len(own) for flow, own in self._flows.items()}
        assert all(numbers.values()), f"flows without requests in {numbers}"
        assert self.number == sum(numbers.values()), f"wrong sum in {numbers}"
        assert {flow: n for n, flows in self._by_number.items() for flow in flows} == numbers, (
            f"wrong index of {numbers}"
        )
        assert self._most == max(self._by_number), f"wrong maximum in {numbers}"


class IncomingBodies:
    """All requests that wait for their bodies; ``now`` is the clock, and ``alarm`` creates the timer."""

    __slots__ = (
        "_alarm",
        "_bytes",
        "_is_closed",
        "_kept",
        "_levels",
        "_now",
        "_weights",
        "_windows",
        "held",
        "settings",
    )

    def __init__(
        self,
        now: Callable[[], int],
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm] = Alarm,
    ) -> None:
        self.settings: BodySettings = _USUAL
        self.held: Timeouts[Suspendable] = Timeouts(HELD_NS, now, _suspend, alarm)
        self._now = now
        self._alarm = alarm(self._look, now)
        self._is_closed = False
        self._levels: dict[str, _Places] = {}
        self._weights: Mapping[str, int] = {}
        self._windows: OrderedDict[IncomingBody, None] = OrderedDict()  # ordered by the ends of their windows
        self._bytes: dict[Flow, int] = {}
        self._kept = 0

    @property
    def number(self) -> int:
        """The number of requests that are being received now."""
        return len(self._windows)

    @property
    def kept(self) -> int:
        """The number of bytes that are buffered now."""
        return self._kept

    def adopt(self, settings: BodySettings, seats: Mapping[str, int]) -> None:
        """Put ``settings`` and the nominal ``seats`` of the levels in force."""
        self.settings, self._weights = settings, seats

    def begin(self, incoming: IncomingBody) -> None:
        """Count a request that begins to wait for its body, and end one if there is one too many."""
        incoming.until = self._now() + self.settings.patience_ns
        incoming.arrived = 0
        incoming.is_counted = True
        places = self._levels.get(incoming.level)
        if places is None:
            places = self._levels[incoming.level] = _Places()
        places.enter(incoming)
        self._windows[incoming] = None
        # Usually the alarm is set for the first window already, unless the event loop that had the alarm has ended.
        self._alarm.ask(next(iter(self._windows)).until)
        if self._is_closed and not incoming.is_running:
            self._stop(incoming, Reason.QUEUE_CLOSED)
        elif len(self._windows) > self.settings.max_receiving:
            # The new request is among those that are compared, and may be the one that has to end.
            self._stop(max(self._levels.items(), key=self._load)[1].first(), Reason.BODY_LIMIT)

    def _load(self, level: tuple[str, _Places]) -> float:
        name, places = level
        # A level without nominal seats counts as one with half a seat.
        return places.number / max(self._weights.get(name, 0), 0.5)

    def end(self, incoming: IncomingBody) -> None:
        """Stop counting a request; further calls do nothing."""
        if not incoming.is_counted:
            return
        incoming.is_counted = False
        # The bytes stay charged: the messages are in memory until the app takes or drops them (see `give`).
        del self._windows[incoming]
        places = self._levels[incoming.level]
        places.leave(incoming)
        if not places.number:
            del self._levels[incoming.level]

    def keep(self, incoming: IncomingBody, size: int) -> bool:
        """Record that ``size`` more bytes are buffered, and return whether the flow may buffer more."""
        incoming.kept += size
        own = self._bytes[incoming.flow] = self._bytes.get(incoming.flow, 0) + size
        self._kept += size
        return own <= self.settings.max_buffered - self._kept

    def give(self, incoming: IncomingBody, size: int) -> None:
        """Record that ``size`` bytes are no longer buffered."""
        if not size:
            return
        incoming.kept -= size
        self._kept -= size
        left = self._bytes[incoming.flow] - size
        if left:
            self._bytes[incoming.flow] = left
        else:
            del self._bytes[incoming.flow]

    def _stop(self, incoming: IncomingBody, reason: Reason) -> None:
        # set first, because the interrupted task reads it
        incoming.reason = reason
        self.end(incoming)
        incoming.interrupt()

    def _look(self) -> None:
        """End the requests with bodies that arrive too slowly, and begin the next window of the others."""
        now, least = self._now(), self.settings.least_bytes
        due = []  # collected first, because ending a request changes the mapping
        # If a reload has shortened the windows, a window behind a longer one is examined only when the longer one ends.
        for incoming in self._windows:
            if incoming.until > now:
                break
            due.append(incoming)
        for incoming in due:
            if incoming.arrived < least:
                self._stop(incoming, Reason.SLOW_BODY)
            else:
                del self._windows[incoming]
                incoming.until, incoming.arrived = now + self.settings.patience_ns, 0
                self._windows[incoming] = None
        first = next(iter(self._windows), None)
        if first is not None:
            self._alarm.ask(first.until)

    def close(self) -> None:
        """End the requests that haven't begun to run, and those that come later, because the server stops."""
        self._is_closed = True
        for incoming in [one for one in self._windows if not one.is_running]:
            self._stop(incoming, Reason.QUEUE_CLOSED)

    def open(self) -> None:
        """Accept requests again."""
        self._is_closed = False

    def counts(self, levels: Iterable[str]) -> dict[str, int]:
        """Return the number of requests being received by level; levels not in ``levels`` are omitted if it is 0."""
        return dict.fromkeys(levels, 0) | {name: places.number for name, places in self._levels.items()}

    def check(self) -> None:
        """Raise AssertionError if the counts are inconsistent."""
        assert self.number == sum(places.number for places in self._levels.values()), f"wrong sum in {self!r}"
        for places in self._levels.values():
            places.check()
        assert self._kept == sum(self._bytes.values()) >= 0, f"wrong sum of bytes in {self!r}"
        assert all(self._bytes.values()), f"flows without bytes in {self!r}"

    def __repr__(self) -> str:
        return f"<IncomingBodies: {self.number} requests, {self._kept} bytes kept>"
