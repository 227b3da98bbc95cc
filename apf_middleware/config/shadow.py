"""Settings of a second configuration that is tried beside this one: the ``shadow`` of a Server document."""

from dataclasses import dataclass

from apf_middleware.config.settings import Settings
from apf_middleware.config.values import NonEmpty

__all__ = ["ShadowSettings"]


@dataclass(frozen=True, slots=True)
class ShadowSettings(Settings):
    """The ``file`` of a configuration to try, relative to the file of this one; ``classify_only`` compares no waits."""

    file: NonEmpty
    classify_only: bool = False
