"""Settings of the event loop's lag: the ``eventLoop`` of a Server document."""

from collections.abc import Iterator
from typing import ClassVar, Final

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.values import Nanoseconds
from apf_middleware.frozen import frozen

__all__ = ["EventLoopSettings"]

_MS: Final = 10**6


@frozen
class EventLoopSettings(Settings):
    """The target of the event loop's lag, which it may exceed for 1 % of the time."""

    always_written: ClassVar[frozenset[str]] = frozenset({"lag_target_ns"})  # otherwise nothing would be left

    lag_target_ns: Nanoseconds = 2 * _MS

    def rules(self) -> Iterator[Violation]:
        if self.lag_target_ns < _MS:
            hint = "Write 1ms or more"
            yield Violation(("lag_target_ns",), self.lag_target_ns, "timers are exact to a millisecond only", hint)
