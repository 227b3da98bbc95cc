"""The ``queues`` part of a Server document: how requests name their queue, and what becomes of an unknown name."""

import re
from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field

from apf_middleware.config.dialects.base import Broken
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.dialects.values import DnsSubdomain, NonEmpty, StringSet
from apf_middleware.config.naming import NamingSettings

__all__ = ["NamingModel"]

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class NamingModel(CamelModel):
    """A header counts only from callers in one of the ``groups``, or with ``trustedProxies`` from a trusted proxy."""

    header: NonEmpty | None = None
    groups: StringSet = Field(default_factory=list)
    trusted_proxies: bool = False
    unknown: Literal["default", "notFound", "unavailable"] = "default"
    default: DnsSubdomain | None = None

    def rules(self) -> Iterator[Broken]:
        if self.header is None:
            if self.groups:
                yield Broken(("groups",), self.groups, "it says whose header is believed, and there is no header")
            return
        if not _TOKEN.fullmatch(self.header):
            yield Broken(("header",), self.header, "it must be a header's name", "Write it like X-Queue")
        if not (self.groups or self.trusted_proxies):
            hint = "Name groups, or write trustedProxies: true"
            yield Broken(("header",), self.header, "nobody would be believed who names a queue in it", hint)

    def built(self) -> NamingSettings:
        header = (self.header or "").lower()
        return NamingSettings(header, tuple(self.groups), self.trusted_proxies, self.unknown, self.default or "")
