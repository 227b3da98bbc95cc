"""Settings of metrics, the ``metrics`` of a Server document: path, names, and the clients that may read them."""

import re
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Final

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import SERVED_PATH, NetworkSet, NonEmpty, is_served_path
from apf_middleware.frozen import frozen

__all__ = ["MetricsSettings"]

_PREFIX: Final = r"[a-zA-Z]([a-zA-Z0-9_]*[a-zA-Z0-9])?"


@frozen
class MetricsSettings(Settings):
    """The endpoint of metrics; if ``exposed_to`` is empty, all clients may read it.

    Unless ``enabled``, the middleware serves no metrics itself; metrics are still there for a registry that an app
    passes in Python. ``legacy_names`` adds metrics by the names that Kubernetes had until 1.30.
    """

    prefix: NonEmpty = "apf"
    legacy_names: bool = False
    enabled: bool = True
    path: NonEmpty = "/metrics"
    exposed_to: NetworkSet = ()

    def rules(self) -> Iterator[Violation]:
        if not is_served_path(self.path):
            hint = "Write enabled: false to serve no metrics"
            yield Violation(("path",), self.path, SERVED_PATH, hint)
        if not re.fullmatch(_PREFIX, self.prefix):
            rule = "it must be letters, digits and underscores, a letter first and no underscore last"
            yield Violation(("prefix",), self.prefix, rule, "Kubernetes' own is apiserver_flowcontrol")

    @property
    def served_path(self) -> str | None:
        """The path at which metrics are served; None if they aren't."""
        return self.path if self.enabled else None

    def exposes_to(self, address: str | None) -> bool:
        """Return whether a client may read the metrics; a client without an address only may if all clients may."""
        if not self.exposed_to:
            return True
        try:
            parsed = ip_address(address or "")
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self.exposed_to)
