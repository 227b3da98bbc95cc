"""Settings of responses: the ``responses`` of a Server document, for rejections and headers."""

from collections.abc import Iterator
from dataclasses import field
from typing import ClassVar, Literal

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import Seconds
from apf_middleware.frozen import frozen

__all__ = ["ResponseSettings", "RetryAfterBounds"]


@frozen
class RetryAfterBounds(Settings):
    """The bounds of ``Retry-After``."""

    always_written: ClassVar[frozenset[str]] = frozenset({"least_s", "most_s"})

    least_s: Seconds = 1
    most_s: Seconds = 60

    def rules(self) -> Iterator[Violation]:
        if self.least_s > self.most_s:
            yield Violation(("least_s",), self.least_s, f"it must not exceed most, which is {self.most_s}s")


@frozen
class ResponseSettings(Settings):
    """The headers of responses, and the status of rejections.

    Headers name schema and level, in headers of this project or in those of Kubernetes (the ``dialect``). ``headers``
    are sent with all responses, or only with rejections and with responses to requests that have waited, or never. With
    ``names`` hidden, headers and rejections contain UIDs instead of names, as in Kubernetes. During a shutdown, the
    status of rejections is always 503. With ``server_timing``, each response contains the wait of its request.
    """

    headers: Literal["all", "waited", "none"] | None = None
    dialect: Literal["apf", "kubernetes"] = "apf"
    names: Literal["shown", "hidden"] = "shown"
    status: Literal[429, 503] = 429
    server_timing: bool = False
    retry_after: RetryAfterBounds = field(default_factory=RetryAfterBounds)

    @property
    def headers_on(self) -> Literal["all", "waited", "none"]:
        """The responses that get headers; by default all in the dialect of Kubernetes, whose server does the same."""
        return self.headers or ("all" if self.dialect == "kubernetes" else "waited")
