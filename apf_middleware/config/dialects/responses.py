"""What the Server document of ``apf/v1`` says about responses: how rejections look, and what headers tell."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from apf_middleware.config.dialects.base import Broken
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.dialects.values import Duration, duration_ns, written_duration
from apf_middleware.config.responses import ResponseSettings

__all__ = ["ResponsesModel"]

_SECOND = 10**9


class _RetryAfter(CamelModel):
    least: Duration = "1s"
    most: Duration = "60s"

    def rules(self) -> Iterator[Broken]:
        least, most = duration_ns(self.least), duration_ns(self.most)
        for name, value in (("least", least), ("most", most)):
            if value < _SECOND or value % _SECOND:
                written = written_duration(value)
                yield Broken((name,), written, "it must be whole seconds, at least one: the header knows no other")
        if least > most:
            yield Broken(("least",), self.least, f"it must not be more than most, {self.most}")


class ResponsesModel(CamelModel):
    """``status`` is that of rejections; a server that shuts down says 503 anyway."""

    headers: Literal["apf", "kubernetes", "none"] = "apf"
    names: Literal["shown", "hidden"] = "shown"
    status: Literal[429, 503] = 429
    retry_after: _RetryAfter = Field(default_factory=_RetryAfter)
    server_timing: bool = False

    def built(self) -> ResponseSettings:
        return ResponseSettings(
            headers=self.headers,
            names=self.names,
            status=self.status,
            retry_after_least_s=duration_ns(self.retry_after.least) // _SECOND,
            retry_after_most_s=duration_ns(self.retry_after.most) // _SECOND,
            server_timing=self.server_timing,
        )
