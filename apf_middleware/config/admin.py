"""What a configuration says about the admin, as a plain frozen object: where it is, and for whom."""

from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT_APP", "DEFAULT_PATH", "AdminSettings"]

DEFAULT_PATH: Final = "/debug/api_priority_and_fairness"
"""Where Kubernetes has its debug dumps."""

DEFAULT_APP: Final = "app"
"""What a server's sockets are called unless it has a name."""


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Over HTTP everything is below ``path``: members of any of the ``groups`` may look, ``operators`` also change.

    Without either there is nothing over HTTP. ``socket`` is the directory where each worker of ``app`` has a unix
    socket, for whoever may connect to it.
    """

    path: str = DEFAULT_PATH
    groups: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    socket: str = ""
    app: str = DEFAULT_APP

    @property
    def is_on(self) -> bool:
        """Whether anybody is answered over HTTP."""
        return bool(self.groups or self.operators)
