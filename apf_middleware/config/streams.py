"""What a configuration says about requests that last: streams, and clients that read slowly; plain frozen objects.

A level says what it wants to say, and the server what holds for levels that say nothing. How many streams may be open
is a level's own to say, for the levels of one server are of different sizes.
"""

from dataclasses import dataclass, replace

from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = ["ServerStreamSettings", "StreamSettings"]


@dataclass(frozen=True, slots=True)
class ServerStreamSettings:
    """What holds where a level says nothing.

    ``release_at_start``: a stream gives its seats back when its response starts. ``release_when_blocked_ns``: so does
    a request of which one write has been held up by its client for so long; 0 is never.
    """

    release_at_start: bool = True
    release_when_blocked_ns: int = 0

    def __post_init__(self) -> None:
        require_integer("release_when_blocked_ns", self.release_when_blocked_ns, least=0)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """A level's own. None is whatever the server says; of the limits it is that there is none."""

    release_at_start: bool | None = None
    release_when_blocked_ns: int | None = None
    max_open: int | None = None
    max_open_per_flow: int | None = None

    def __post_init__(self) -> None:
        for name in ("release_when_blocked_ns", "max_open", "max_open_per_flow"):
            if getattr(self, name) is not None:
                require_integer(name, getattr(self, name), least=0)
        if self.max_open is not None and (self.max_open_per_flow or 0) > self.max_open:
            rule = f"it must not exceed max_open, which is {self.max_open}"
            raise InvalidValueError("max_open_per_flow", self.max_open_per_flow, rule)

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit to open streams."""
        return self.max_open is not None or self.max_open_per_flow is not None

    def on(self, server: ServerStreamSettings) -> "StreamSettings":
        """The same with what this server says where the level says nothing."""
        at_start, blocked_ns = self.release_at_start, self.release_when_blocked_ns
        return replace(
            self,
            release_at_start=server.release_at_start if at_start is None else at_start,
            release_when_blocked_ns=server.release_when_blocked_ns if blocked_ns is None else blocked_ns,
        )
