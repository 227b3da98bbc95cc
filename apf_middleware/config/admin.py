"""What a configuration says about the admin endpoints, as a plain frozen object: where they are, and for whom."""

from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT_PATH", "AdminSettings"]

DEFAULT_PATH: Final = "/debug/api_priority_and_fairness"
"""Where Kubernetes has its debug dumps."""


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """Everything is below ``path``, for members of any of the ``groups``. Without groups there is nothing at all."""

    path: str = DEFAULT_PATH
    groups: tuple[str, ...] = ()

    @property
    def is_on(self) -> bool:
        return bool(self.groups)
