"""Requests whose bodies are on their way and that have no seats meanwhile: bounded in number, in bytes and in time.

A client decides how fast its body comes. So a request that waits for its body takes no seat and no place in a queue,
but it has a connection, a task and a buffer, and there must be a bound to each:

- **Time.** Of each body a least number of bytes must come in each window of the same length, or its request is ended.
- **Number.** When there is one request too many, one is ended: of the level that has most in proportion to its nominal
  seats, of the flow that has most there, the one that came first. So a flow that fills the places loses its own, and
  another flow's request, which needs a moment only, finds one.
- **Bytes.** A flow may keep as many bytes as are still free. So one flow has at most half of them, and n flows
  1/(n + 1) each. A request that may keep no more asks for seats with what it has.

All of this is O(1) per request, but for a look at all levels when one request must be ended.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from apf_middleware.config.bodies import BodySettings
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime.alarm import Alarm, AnyAlarm
from apf_middleware.runtime.stalled_calls import StalledCalls

if TYPE_CHECKING:
    from apf_middleware.classification import Classification

__all__ = ["HELD_NS", "Incoming", "IncomingBodies", "Suspendable"]

HELD_NS: Final = 100_000_000
"""An app that waits so long for more of a body, at most twice that, gives its seats back meanwhile."""

Flow = tuple[str, str]
"""A flow by its schema and its distinguisher."""

_USUAL: Final = BodySettings()


class Suspendable(Protocol):
    """What can give its seats back while it waits for more of a body."""

    def suspend(self) -> None: ...


def _suspend(one: Suspendable) -> None:
    one.suspend()


def _nothing() -> None:
    """Interrupt nothing: the request isn't waiting yet."""


class Incoming:
    """One request whose body is on its way; ``reason`` is why it was ended, if it was.

    ``is_running`` means that its app has been called before and waits for more of the body.
    """

    __slots__ = ("arrived", "flow", "interrupt", "is_counted", "is_running", "kept", "level", "reason", "until")

    def __init__(self, classification: "Classification") -> None:
        self.level: str = classification.level
        self.flow: Flow = (classification.schema, classification.flow)
        self.interrupt: Callable[[], object] = _nothing
        self.reason: Reason | None = None
        self.is_running: bool = False
        self.is_counted: bool = False
        self.arrived: int = 0  # bytes, in this window
        self.until: int = 0  # the end of the window
        self.kept: int = 0  # bytes

    def __repr__(self) -> str:
        return f"<Incoming of {self.flow} at {self.level}: {self.kept} bytes kept>"


class _Places:
    """The requests of one level by flows, and the flows by how many they have."""

    __slots__ = ("_by_number", "_flows", "_most", "number")

    def __init__(self) -> None:
        self._flows: dict[Flow, dict[Incoming, None]] = {}
        self._by_number: dict[int, dict[Flow, None]] = {}
        self._most = 0
        self.number: int = 0

    def enter(self, incoming: Incoming) -> None:
        own = self._flows.setdefault(incoming.flow, {})
        self._move(incoming.flow, len(own), len(own) + 1)
        own[incoming] = None
        self.number += 1
        self._most = max(self._most, len(own))

    def leave(self, incoming: Incoming) -> None:
        own = self._flows[incoming.flow]
        del own[incoming]
        self._move(incoming.flow, len(own) + 1, len(own))
        self.number -= 1
        if not own:
            del self._flows[incoming.flow]
        if self._most not in self._by_number:
            self._most -= 1

    def _move(self, flow: Flow, before: int, after: int) -> None:
        if before:
            same = self._by_number[before]
            del same[flow]
            if not same:
                del self._by_number[before]
        if after:
            self._by_number.setdefault(after, {})[flow] = None

    def first(self) -> Incoming:
        """Return the oldest request of the flow that has most."""
        return next(iter(self._flows[next(iter(self._by_number[self._most]))]))


class IncomingBodies:
    """All requests whose bodies are on their way; ``now`` is the clock, and ``alarm`` makes its timer."""

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
        self.held: StalledCalls[Suspendable] = StalledCalls(HELD_NS, now, _suspend)
        self._now = now
        self._alarm = alarm(self._look, now)
        self._is_closed = False
        self._levels: dict[str, _Places] = {}
        self._weights: Mapping[str, int] = {}
        self._windows: dict[Incoming, None] = {}  # the one that ends first comes first
        self._bytes: dict[Flow, int] = {}
        self._kept = 0

    @property
    def number(self) -> int:
        """The requests that are being received now."""
        return len(self._windows)

    @property
    def kept(self) -> int:
        """The bytes that are kept now."""
        return self._kept

    def adopt(self, settings: BodySettings, seats: Mapping[str, int]) -> None:
        """Put ``settings`` in force, and the nominal ``seats`` of the levels."""
        self.settings, self._weights = settings, seats

    def begin(self, incoming: Incoming) -> None:
        """Count a request that waits for its body from now on, and end one if that is one too many."""
        incoming.until = self._now() + self.settings.patience_ns
        incoming.arrived = 0
        incoming.is_counted = True
        places = self._levels.get(incoming.level)
        if places is None:
            places = self._levels[incoming.level] = _Places()
        places.enter(incoming)
        if not self._windows:
            self._alarm.ask(incoming.until)
        self._windows[incoming] = None
        if self._is_closed and not incoming.is_running:
            self._stop(incoming, Reason.QUEUE_CLOSED)
        elif len(self._windows) > self.settings.max_receiving:
            self._stop(max(self._levels.items(), key=self._load)[1].first(), Reason.BODY_LIMIT)

    def _load(self, level: tuple[str, _Places]) -> float:
        name, places = level
        return places.number / max(self._weights.get(name, 0), 0.5)

    def end(self, incoming: Incoming) -> None:
        """Count a request no more; again does nothing."""
        if not incoming.is_counted:
            return
        incoming.is_counted = False
        del self._windows[incoming]
        places = self._levels[incoming.level]
        places.leave(incoming)
        if not places.number:
            del self._levels[incoming.level]

    def keep(self, incoming: Incoming, size: int) -> bool:
        """Note that ``size`` bytes more are kept; False if the flow may keep no more."""
        incoming.kept += size
        own = self._bytes[incoming.flow] = self._bytes.get(incoming.flow, 0) + size
        self._kept += size
        return own <= self.settings.max_buffered - self._kept

    def give(self, incoming: Incoming, size: int) -> None:
        """Note that ``size`` bytes aren't kept any more."""
        if not size:
            return
        incoming.kept -= size
        self._kept -= size
        left = self._bytes[incoming.flow] - size
        if left:
            self._bytes[incoming.flow] = left
        else:
            del self._bytes[incoming.flow]

    def _stop(self, incoming: Incoming, reason: Reason) -> None:
        incoming.reason = reason
        self.end(incoming)
        incoming.interrupt()

    def _look(self) -> None:
        """End the requests of whose bodies too little has come, and begin the next window of the others."""
        now, least = self._now(), self.settings.least_bytes
        due = []
        for incoming in self._windows:
            if incoming.until > now:
                break
            due.append(incoming)
        for incoming in due:
            if incoming.arrived < least:
                self._stop(incoming, Reason.SLOW_BODY)
            elif incoming.is_counted:
                del self._windows[incoming]
                incoming.until, incoming.arrived = now + self.settings.patience_ns, 0
                self._windows[incoming] = None
        first = next(iter(self._windows), None)
        if first is not None:
            self._alarm.ask(first.until)

    def close(self) -> None:
        """Let no request wait for its body that hasn't begun to run: the server stops."""
        self._is_closed = True
        for incoming in [one for one in self._windows if not one.is_running]:
            self._stop(incoming, Reason.QUEUE_CLOSED)

    def open(self) -> None:
        """Let requests come again."""
        self._is_closed = False

    def counts(self, levels: Iterable[str]) -> dict[str, int]:
        """Return how many requests are being received by level; of another than ``levels`` only where there are any."""
        return dict.fromkeys(levels, 0) | {name: places.number for name, places in self._levels.items()}

    def check(self) -> None:
        """Raise AssertionError where what is kept doesn't add up."""
        assert self.number == sum(places.number for places in self._levels.values()), f"the sum of {self!r}"
        assert self._kept == sum(self._bytes.values()) >= 0, f"the bytes of {self!r}"
        assert all(self._bytes.values()), f"flows without bytes in {self!r}"

    def __repr__(self) -> str:
        return f"<IncomingBodies: {self.number} requests, {self._kept} bytes kept>"
