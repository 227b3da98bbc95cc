"""Settings of streams and of clients that read slowly: the ``streams`` of a level and of a Server.

The server's settings are the defaults of its levels. Limits of open streams have no such defaults, because the levels
of one server differ in size.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Final

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import DEPENDS, Amount, Nanoseconds
from apf_middleware.frozen import frozen

__all__ = ["ServerStreamSettings", "StreamSettings"]

_RENAMED: Final = {
    "releaseOnStart": "releaseAtStart",
    "writeLimit": "releaseWhenBlocked",
    "limit": "maxOpen",
    "maxPerFlow": "maxOpenPerFlow",
}


@frozen
class ServerStreamSettings(Settings):
    """The defaults of levels.

    With ``release_at_start``, a stream gives its seats back when its response starts. A request also gives them back
    when its client has blocked one write for ``release_when_blocked_ns``; 0 means never. The default of this duration
    depends on the suggested objects.
    """

    renamed: ClassVar[Mapping[str, str]] = _RENAMED | dict.fromkeys(
        ("maxOpen", "maxOpenPerFlow"), "Write it in the streams of a PriorityLevel"
    )
    always_written: ClassVar[frozenset[str]] = frozenset({"release_when_blocked_ns"})

    release_at_start: bool = True
    release_when_blocked_ns: Annotated[Nanoseconds, DEPENDS] = 0


@frozen
class StreamSettings(Settings):
    """The settings of a level. None means the server's setting or, for ``max_open…``, no limit."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED

    release_at_start: bool | None = None
    release_when_blocked_ns: Nanoseconds | None = None
    max_open: Amount | None = None
    max_open_per_flow: Amount | None = None

    def rules(self) -> Iterator[Violation]:
        if self.max_open is not None and (self.max_open_per_flow or 0) > self.max_open:
            rule = f"it must not exceed maxOpen, which is {self.max_open}"
            yield Violation(("max_open_per_flow",), self.max_open_per_flow, rule)

    @property
    def is_limited(self) -> bool:
        """True if there is any limit to open streams."""
        return self.max_open is not None or self.max_open_per_flow is not None

    def on(self, server: ServerStreamSettings) -> "StreamSettings":
        """Return these settings, completed by those of the server."""
        at_start, blocked_ns = self.release_at_start, self.release_when_blocked_ns
        return replace(
            self,
            release_at_start=server.release_at_start if at_start is None else at_start,
            release_when_blocked_ns=server.release_when_blocked_ns if blocked_ns is None else blocked_ns,
        )
