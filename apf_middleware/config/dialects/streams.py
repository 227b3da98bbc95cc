"""The ``streams`` part of a PriorityLevel and of a Server document of ``apf/v1``."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from apf_middleware.config.dialects.base import Broken
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.dialects.values import Amount, Duration, duration_ns, written_duration
from apf_middleware.config.streams import ServerStreamSettings, StreamSettings

__all__ = ["ServerStreamsModel", "StreamsModel", "streams_part"]

_RENAMED: Final = {
    "releaseOnStart": "releaseAtStart",
    "writeLimit": "releaseWhenBlocked",
    "limit": "maxOpen",
    "maxPerFlow": "maxOpenPerFlow",
}


class ServerStreamsModel(CamelModel):
    """For levels that say nothing; limits are theirs."""

    renamed: ClassVar[dict[str, str]] = _RENAMED | dict.fromkeys(
        ("maxOpen", "maxOpenPerFlow"), "streams of a PriorityLevel"
    )

    release_at_start: bool = True
    release_when_blocked: Duration | None = None

    def built(self) -> ServerStreamSettings:
        return ServerStreamSettings(self.release_at_start, duration_ns(self.release_when_blocked or "0s"))


class StreamsModel(CamelModel):
    """A level's own."""

    renamed: ClassVar[dict[str, str]] = _RENAMED

    release_at_start: bool | None = None
    release_when_blocked: Duration | None = None
    max_open: Amount | None = None
    max_open_per_flow: Amount | None = None

    def rules(self) -> Iterator[Broken]:
        most, per_flow = self.max_open, self.max_open_per_flow
        if most is not None and per_flow is not None and per_flow > most:
            yield Broken(("maxOpenPerFlow",), per_flow, f"it must not exceed maxOpen, which is {most}")

    def built(self) -> StreamSettings:
        blocked = self.release_when_blocked
        blocked_ns = None if blocked is None else duration_ns(blocked)
        return StreamSettings(self.release_at_start, blocked_ns, self.max_open, self.max_open_per_flow)


def streams_part(settings: StreamSettings | ServerStreamSettings) -> dict[str, Any]:
    """What these settings say that isn't said anyway."""
    usual = type(settings)()
    part: dict[str, Any] = {}
    if settings.release_at_start != usual.release_at_start:
        part["releaseAtStart"] = settings.release_at_start
    # A server's depends on other documents if it isn't said.
    if settings.release_when_blocked_ns is not None:
        part["releaseWhenBlocked"] = written_duration(settings.release_when_blocked_ns)
    if isinstance(settings, StreamSettings):
        limits = {"maxOpen": settings.max_open, "maxOpenPerFlow": settings.max_open_per_flow}
        part |= {key: limit for key, limit in limits.items() if limit is not None}
    return part
