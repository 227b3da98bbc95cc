"""What a configuration says about metrics, as a plain frozen object: where they are served, to whom, by what names."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

__all__ = ["MetricsSettings"]


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """``path`` None means that the middleware serves none itself. ``exposed_to`` nobody in particular means to all.

    ``legacy_names`` adds metrics by the names that Kubernetes had until 1.30.
    """

    path: str | None = "/metrics"
    prefix: str = "apf"
    exposed_to: tuple[IPv4Network | IPv6Network, ...] = ()
    legacy_names: bool = False

    def exposes_to(self, address: str | None) -> bool:
        """Whether a client may see the metrics; one without an address may if all may."""
        if not self.exposed_to:
            return True
        try:
            parsed = ip_address(address or "")
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self.exposed_to)
