"""Settings of a second configuration that is tried beside this one: the ``shadow`` of a Server document."""

from apf_middleware.config.settings import Settings
from apf_middleware.config.values import NonEmpty
from apf_middleware.frozen import frozen

__all__ = ["ShadowSettings"]


@frozen
class ShadowSettings(Settings):
    """The ``file`` of a configuration to try, relative to the file of this one; ``classify_only`` compares no waits."""

    file: NonEmpty
    classify_only: bool = False
