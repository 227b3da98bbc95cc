"""Settings of the criticality of requests: the ``criticality`` of a Server document, of rules and of schemas."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import TrustedGroups, is_header
from apf_middleware.criticality import CriticalityFormat
from apf_middleware.frozen import frozen

__all__ = ["CriticalityName", "CriticalityNames", "CriticalitySettings"]

CriticalityName = Literal["sheddable", "sheddablePlus", "critical", "criticalPlus"]

CriticalityNames = Annotated[tuple[CriticalityName, ...], Field(strict=False)]


@frozen
class CriticalitySettings(Settings):
    """The headers in which requests say how critical they are, and whom to believe.

    ``headers`` are read in the given formats. ``usual`` is the criticality of requests that say nothing. Every caller
    may claim less; members of ``groups``, and callers behind trusted proxies, may claim more.
    """

    renamed: ClassVar[Mapping[str, str]] = {"default": "usual"}

    headers: Mapping[str, CriticalityFormat] = field(default_factory=lambda: {"x-criticality": "name"}, hash=False)
    usual: CriticalityName = "critical"
    groups: TrustedGroups = ()

    def rules(self) -> Iterator[Violation]:
        for name, written in self.headers.items():
            if not is_header(name):
                rule, hint = "its name must be a header's, in lower case", "Write it like x-criticality"
                yield Violation(("headers", name), written, rule, hint)
