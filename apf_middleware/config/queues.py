"""Settings of requests that name their queue: the ``queues`` of a Server document."""

from collections.abc import Iterator
from typing import Literal

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import DnsSubdomain, LowerCase, TrustedGroups, is_token
from apf_middleware.frozen import frozen

__all__ = ["NamingSettings", "Unknown"]

Unknown = Literal["default", "notFound", "unavailable"]
"""The outcome for a request that names an unknown queue: the default queue, or the status 404 or 503."""


@frozen
class NamingSettings(Settings):
    """The ``header`` in which a trusted caller names a request's queue.

    Members of any of the ``groups`` are trusted and, with ``trusted_proxies``, all requests that such a proxy passes
    on. Without a header, only schemas name queues. An empty ``default`` means the level of requests that no schema
    takes.
    """

    header: LowerCase = ""
    groups: TrustedGroups = ()
    trusted_proxies: bool = False
    unknown: Unknown = "default"
    default: DnsSubdomain = ""

    def rules(self) -> Iterator[Violation]:
        if not self.header:
            if self.groups:
                rule = "it has no effect without a header"
                yield Violation(("groups",), self.groups, rule)
            return
        if not is_token(self.header):
            yield Violation(("header",), self.header, "it must be a header's name", "Write it like X-Queue")
        if not (self.groups or self.trusted_proxies):
            hint = "Name groups, or write trustedProxies: true"
            yield Violation(("header",), self.header, "no caller would be trusted to name a queue", hint)
