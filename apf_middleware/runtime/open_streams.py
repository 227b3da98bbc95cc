"""Long-lived requests: the number that is open by level and flow, their watches, and slow readers among them.

A *stream* is a request that has given its seats back and continues, or that has a place reserved because it is known to
become one. Its duration is unbounded, so it must not hold seats. It still needs memory and a socket, so a level can
limit its streams.

A stream is counted under the name of the level where it begins, until its response has ended. Levels come and go with
configurations; a level that is defined again has its open streams again.
"""

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING

from apf_middleware.config.streams import StreamSettings
from apf_middleware.runtime.blocked_sends import BlockedSends
from apf_middleware.runtime.retry_after import DrainMeter

if TYPE_CHECKING:
    from apf_middleware.classification import Resource
    from apf_middleware.estimation import Watch, WatchTracker

__all__ = ["OpenStreams", "Stream", "StreamRegistry"]

Flow = tuple[str, str]
"""A flow by its schema and its distinguisher."""


class OpenStreams:
    """The streams of one level; ``settings`` are complete, with the server's defaults filled in."""

    __slots__ = ("_by_flow", "closed", "drain", "is_limited", "open", "sends", "settings")

    def __init__(self, now: Callable[[], int]) -> None:
        self._by_flow: dict[Flow, int] = {}
        self.open: int = 0
        self.closed: int = 0
        self.drain: DrainMeter = DrainMeter(now())  # for the rate at which streams end
        self.settings: StreamSettings = StreamSettings()
        self.is_limited: bool = False  # a copy from the settings, which is faster to read
        self.sends: BlockedSends = BlockedSends(0, now)

    def adopt(self, settings: StreamSettings) -> None:
        """Put ``settings`` in force; open streams stay open, even if there are too many."""
        self.settings = settings
        self.is_limited = settings.is_limited
        self.sends.set_limit(settings.release_when_blocked_ns or 0)

    def enter(self, flow: Flow) -> bool:
        """Count one more stream of this flow; False if the limits don't allow it."""
        settings, own = self.settings, self._by_flow.get(flow, 0)
        if settings.max_open is not None and self.open >= settings.max_open:
            return False
        if settings.max_open_per_flow is not None and own >= settings.max_open_per_flow:
            return False
        self._by_flow[flow] = own + 1
        self.open += 1
        return True

    def leave(self, flow: Flow) -> None:
        """Stop counting one stream of this flow."""
        self.open -= 1
        self.closed += 1
        left = self._by_flow[flow] - 1
        if left:
            self._by_flow[flow] = left
        else:
            del self._by_flow[flow]

    def check(self) -> None:
        """Raise AssertionError if the counts are inconsistent."""
        assert self.open == sum(self._by_flow.values()), f"wrong sum in {self!r}"
        assert all(self._by_flow.values()), f"flows without streams in {self!r}"

    def __repr__(self) -> str:
        return f"<OpenStreams: {self.open} of {len(self._by_flow)} flows>"


class StreamRegistry:
    """The open streams of all levels by name; those of a removed level are kept until the last one has ended."""

    __slots__ = ("_levels", "_now")

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._levels: dict[str, OpenStreams] = {}

    def of(self, level: str, settings: StreamSettings) -> OpenStreams:
        """Put ``settings`` in force for a level, and return its open streams."""
        streams = self._levels.get(level)
        if streams is None:
            streams = self._levels[level] = OpenStreams(self._now)
        streams.adopt(settings)
        return streams

    def forget(self, levels: Container[str]) -> None:
        """Forget the levels that aren't among ``levels`` and have no open streams."""
        for name in [name for name, streams in self._levels.items() if name not in levels and not streams.open]:
            del self._levels[name]

    def counts(self, levels: Container[str]) -> Mapping[str, int]:
        """Return the number of open streams by level; levels not in ``levels`` are omitted if they have none."""
        return {name: streams.open for name, streams in self._levels.items() if name in levels or streams.open}

    def __repr__(self) -> str:
        return f"<StreamRegistry: {sum(streams.open for streams in self._levels.values())} open>"


class Stream:
    """A request's place among the open streams of its level, and its watches, until `close`."""

    __slots__ = ("_flow", "_streams", "_tracker", "_watches", "is_counted", "is_over")

    def __init__(self, streams: OpenStreams, flow: Flow, tracker: "WatchTracker") -> None:
        self._streams = streams
        self._flow = flow
        self._tracker = tracker
        self._watches: tuple[Watch, ...] = ()
        self.is_counted: bool = False
        self.is_over: bool = False

    @property
    def watches(self) -> bool:
        """True if the request has any watch."""
        return bool(self._watches)

    def enter(self) -> bool:
        """Take a place among the open streams, unless the request has one; False if none is left."""
        if not self.is_counted:
            self.is_counted = self._streams.enter(self._flow)
        return self.is_counted

    def leave(self) -> None:
        """Give the place back, because the request is not a stream after all."""
        if self.is_counted:
            self.is_counted = False
            self._streams.leave(self._flow)

    def watch(self, resource: "Resource | None") -> "Watch":
        """Add a watch on ``resource``; None is a resource for which no watches are counted."""
        watch = self._tracker.register(resource)
        self._watches = (*self._watches, watch)
        return watch

    def forget(self, watch: "Watch") -> None:
        """End one watch early."""
        self._tracker.forget(watch)
        self._watches = tuple(one for one in self._watches if one is not watch)

    def close(self) -> None:
        """End the stream with its response; further calls do nothing."""
        self.is_over = True
        self.leave()
        for watch in self._watches:
            self._tracker.forget(watch)
        self._watches = ()

    def __repr__(self) -> str:
        state = "over" if self.is_over else "counted" if self.is_counted else "not counted"
        return f"<Stream of {self._flow}: {state}, {len(self._watches)} watches>"
