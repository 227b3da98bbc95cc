"""The levels that there are: those of the configuration in force, those that drain, and what each has counted.

The controller drives them; here they are found, made, kept when the configuration changes, and forgotten.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from apf_middleware.config import Configuration
from apf_middleware.config.derive import derive_limits
from apf_middleware.fairqueuing import LevelLimits, Sharing
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.sharing import share_seats
from apf_middleware.runtime.streams import StreamBook

__all__ = ["LevelRegistry"]


class LevelRegistry:
    """The levels of ``configuration``; ``limits`` are theirs and those of their parents."""

    def __init__(self, configuration: Configuration, now: Callable[[], int]) -> None:
        self.configuration: Configuration = configuration
        self.now = now
        begin = now()
        self._generation = 0
        self.limits: Mapping[str, LevelLimits] = derive_limits(configuration)
        self._sharing = share_seats(configuration, self.limits, begin)
        self.levels: Mapping[str, LevelRuntime] = {}
        self._draining: list[LevelRuntime] = []
        self._has_leftovers = False  # whether some are counted that the configuration doesn't name
        self.streams: StreamBook = StreamBook(now)
        self._adopt(begin, configuration, self.limits)

    @property
    def shown(self) -> Iterable[LevelRuntime]:
        """Whom metrics tell of, one by name: the levels, and those that drain unless another has taken their name."""
        return {**{runtime.name: runtime for runtime in self._draining}, **self.levels}.values()

    @property
    def sharing(self) -> Sharing:
        """How the levels share the seats."""
        return self._sharing

    def _all(self) -> Iterable[LevelRuntime]:
        return [*self.levels.values(), *self._draining] if self._draining else self.levels.values()

    def look(self, now: int) -> None:
        """Bring what is counted up to ``now``, because somebody wants to see it."""
        for runtime in self._all():
            runtime.look(now)
        if self._has_leftovers:
            self._forget_leftovers(now)

    def _adopt(self, now: int, configuration: Configuration, limits: Mapping[str, LevelLimits]) -> None:
        """The sharing has the levels of this ``configuration`` now: find to each the one at work, or make it."""
        self.configuration = configuration
        self.limits = limits
        before = {id(runtime.shared): runtime for runtime in self._all()}
        named = {runtime.name: runtime for runtime in self.shown}
        timeout = self.configuration.server.request_timeout_ns
        levels = {}
        for name, level in self.configuration.working_levels.items():
            shared = self._sharing.levels[name]
            runtime = before.pop(id(shared), None)
            if runtime is None:
                number = self.generate()
                runtime = LevelRuntime(level, shared, request_timeout_ns=timeout, now=now, generation=number)
                if name in named and not named[name].shared.is_over:
                    runtime.count_on(named[name], now)
            else:
                runtime.adopt(level, request_timeout_ns=timeout)
            levels[name] = runtime
        self.levels = MappingProxyType(levels)
        self.streams.adopt(self.configuration, levels)
        self._draining = list(before.values())
        self._has_leftovers = True

    def _forget_leftovers(self, now: int) -> None:
        """Forget the levels that have drained, and the counters of schemas that have gone, once nobody is there."""
        still = set(map(id, self._sharing.draining))
        self._draining = [runtime for runtime in self._draining if id(runtime.shared) in still]
        kept: dict[str, set[str]] = {name: set() for name in self.levels}
        anywhere = self.configuration.lets_name_queues  # then a schema's requests may be at any level
        for schema in self.configuration.schemas:
            for names in kept.values() if anywhere else (kept.setdefault(schema.level, set()),):
                names.add(schema.name)
        done = [runtime.forget_schemas(kept[name], now) for name, runtime in self.levels.items()]
        self._has_leftovers = bool(self._draining) or not all(done)

    def generate(self) -> int:
        """A number that no other queue ever had."""
        self._generation += 1
        return self._generation
