"""The ``metrics`` part of a Server document."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from pydantic import Field

from apf_middleware.config.dialects.base import Broken
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.dialects.values import NonEmpty, StringSet
from apf_middleware.config.metrics import MetricsSettings

__all__ = ["MetricsModel"]

_PREFIX: Final = r"[a-zA-Z]([a-zA-Z0-9_]*[a-zA-Z0-9])?"
_PATH: Final = r"/[^\s?#*{}]*"


class MetricsModel(CamelModel):
    """``enabled: false`` serves nothing; metrics are still there for a registry that an app passes in Python."""

    enabled: bool = True
    path: NonEmpty = "/metrics"
    prefix: NonEmpty = "apf"
    exposed_to: StringSet = Field(default_factory=list)
    legacy_names: bool = False

    def rules(self) -> Iterator[Broken]:
        if not re.fullmatch(_PATH, self.path):
            hint = "Write enabled: false to serve none"
            yield Broken(("path",), self.path, "it must be one path that begins with /, without a query", hint)
        if not re.fullmatch(_PREFIX, self.prefix):
            rule = "it must be letters, digits and underscores, a letter first and no underscore last"
            yield Broken(("prefix",), self.prefix, rule, "Kubernetes' own is apiserver_flowcontrol")
        for place, network in enumerate(self.exposed_to):
            if _network(network) is None:
                rule = "it must be an address or a network without bits beyond its prefix"
                yield Broken(("exposedTo", place), network, rule, "Write it like 10.0.0.0/8 or ::1")

    def built(self) -> MetricsSettings:
        networks = tuple(network for network in map(_network, self.exposed_to) if network is not None)
        return MetricsSettings(self.path if self.enabled else None, self.prefix, networks, self.legacy_names)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None
