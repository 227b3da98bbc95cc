"""What a configuration says about requests that name their queue, as a plain frozen object."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["NamingSettings", "Unknown"]

Unknown = Literal["default", "notFound", "unavailable"]
"""What becomes of a request that names a queue which doesn't exist: the default queue takes it, or 404, or 503."""


@dataclass(frozen=True, slots=True)
class NamingSettings:
    """``header`` names a request's queue, if its caller is believed.

    Believed are members of any of the ``groups``, and with ``trusted_proxies`` all that such a proxy passes on. Without
    a header, only schemas name queues. An empty ``default`` means the level for whatever no schema takes.
    """

    header: str = ""
    groups: tuple[str, ...] = ()
    trusted_proxies: bool = False
    unknown: Unknown = "default"
    default: str = ""
