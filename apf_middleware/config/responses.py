"""Settings of responses: the ``responses`` of a Server document, how rejections look and what headers tell."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import Seconds

__all__ = ["ResponseSettings", "RetryAfterBounds"]


@dataclass(frozen=True, slots=True)
class RetryAfterBounds(Settings):
    """The bounds of ``Retry-After``."""

    always_written: ClassVar[frozenset[str]] = frozenset({"least_s", "most_s"})

    least_s: Seconds = 1
    most_s: Seconds = 60

    def rules(self) -> Iterator[Violation]:
        if self.least_s > self.most_s:
            yield Violation(("least_s",), self.least_s, f"it must not be more than most, {self.most_s}s")


@dataclass(frozen=True, slots=True)
class ResponseSettings(Settings):
    """``headers`` tell schema and level on every response, by our names or by Kubernetes'.

    With ``names`` hidden, neither headers nor rejections tell names: UIDs stand for them, as in Kubernetes. ``status``
    is that of rejections; a server that shuts down says 503 anyway. With ``server_timing`` every response tells how
    long its request has waited.
    """

    headers: Literal["apf", "kubernetes", "none"] = "apf"
    names: Literal["shown", "hidden"] = "shown"
    status: Literal[429, 503] = 429
    server_timing: bool = False
    retry_after: RetryAfterBounds = field(default_factory=RetryAfterBounds)
