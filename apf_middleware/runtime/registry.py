"""The registry of levels at run time: those of the configuration in force, and those that drain.

Levels are found, made, kept when the configuration changes, and forgotten here. Their seats are shared by a `Sharing`.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from apf_middleware.config import Configuration
from apf_middleware.config.build import derive_hierarchy, derive_limits, derive_settings
from apf_middleware.fairqueuing import DISCIPLINES, Adjusting, Lending, LevelLimits, Sharing
from apf_middleware.fairqueuing.sharing.base import Wanted
from apf_middleware.runtime.backlog import Backlog
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.open_streams import StreamRegistry

__all__ = ["LevelRegistry", "share_seats", "wanted_levels"]


def share_seats(
    configuration: Configuration,
    limits: Mapping[str, LevelLimits],
    now: int,
    room: Callable[[int], int] | None = None,
) -> Sharing:
    """Return the sharing of a server's seats that ``configuration`` asks for; ``room`` is as for a `QueueSet`."""
    server = configuration.server
    share = Adjusting if server.borrowing == "periodic" else Lending
    return share(
        server.total,
        wanted_levels(configuration, limits),
        discipline=DISCIPLINES[server.discipline],
        strict_upstream=server.strict_upstream,
        hierarchy=derive_hierarchy(configuration),
        now=now,
        room=room,
    )


def wanted_levels(configuration: Configuration, limits: Mapping[str, LevelLimits]) -> Wanted:
    """Return settings and limits of the levels that take requests."""
    working = configuration.working_levels
    return {name: (derive_settings(level, limits[name]), limits[name]) for name, level in working.items()}


class LevelRegistry:
    """The ``levels`` of ``configuration`` by name, and the ``limits`` of them and of their parents.

    ``sharing`` shares the seats among them; the requests that wait are bounded by ``backlog``. ``streams`` are the open
    streams of all levels.
    """

    def __init__(self, configuration: Configuration, now: Callable[[], int], backlog: Backlog) -> None:
        begin = now()
        self.configuration: Configuration = configuration
        self.limits: Mapping[str, LevelLimits] = derive_limits(configuration)
        self.sharing: Sharing = share_seats(configuration, self.limits, begin, backlog.room)
        self.levels: Mapping[str, LevelRuntime] = {}
        self.streams: StreamRegistry = StreamRegistry(now)
        self._draining: list[LevelRuntime] = []
        self._generations: dict[str, int] = {}  # of parents
        self._generation = 0
        self._has_leftovers = False  # whether levels or schemas that have gone still have counters
        self.adopt(begin, configuration, self.limits)

    def __iter__(self) -> Iterator[LevelRuntime]:
        """Iterate over the levels, and then over those that drain."""
        yield from self.levels.values()
        yield from self._draining

    @property
    def shown(self) -> tuple[LevelRuntime, ...]:
        """The levels that metrics show, one of each name: a draining level only if no current one has its name."""
        return (*{runtime.name: runtime for runtime in (*self._draining, *self.levels.values())}.values(),)

    def generation_of(self, name: str) -> int:
        """Return the number of a level or parent; no other level or parent ever has the same number."""
        runtime = self.levels.get(name)
        return self._generations[name] if runtime is None else runtime.generation

    def _new_generation(self) -> int:
        self._generation += 1
        return self._generation

    # Another configuration

    def adopt(self, now: int, configuration: Configuration, limits: Mapping[str, LevelLimits]) -> None:
        """Make the levels of ``configuration``, which the sharing has adopted already; keep those that stay."""
        self.configuration = configuration
        self.limits = limits
        before = {id(runtime.shared): runtime for runtime in self}
        by_name = {runtime.name: runtime for runtime in self.shown}
        timeout = configuration.server.request_timeout_ns
        levels = {}
        for name, level in configuration.working_levels.items():
            shared = self.sharing.levels[name]
            streams = self.streams.of(name, configuration.levels[name].streams.on(configuration.server.streams))
            runtime = before.pop(id(shared), None)  # by identity: a draining level may have the same name
            if runtime is None:
                number = self._new_generation()
                runtime = LevelRuntime(level, shared, streams, request_timeout_ns=timeout, now=now, generation=number)
            else:
                runtime.adopt(level, streams, request_timeout_ns=timeout)
            # A level that is over was deleted by an operator; a new level of its name counts from 0. One that is
            # revived counts on from the level that had its name meanwhile.
            if by_name.get(name, runtime) is not runtime and not by_name[name].shared.is_over:
                runtime.count_on(by_name[name], now)
            levels[name] = runtime
        parents = configuration.parents
        self._generations = {name: self._generations.get(name) or self._new_generation() for name in parents}
        self.levels = MappingProxyType(levels)  # replaced as a whole, since other threads may read it
        self._draining = list(before.values())
        self._has_leftovers = True
        self._forget_streams()

    def _forget_streams(self) -> None:
        # A level that drains keeps its streams: others of its requests become streams, and it may be revived.
        self.streams.forget({runtime.name for runtime in self})

    # Counting

    def look(self, now: int) -> None:
        """Bring all counters up to ``now``."""
        for runtime in self:
            runtime.look(now)
        if self._has_leftovers:
            self._forget_leftovers(now)

    def _forget_leftovers(self, now: int) -> None:
        """Forget levels that have drained, and the counters of schemas that have gone and have no requests left."""
        still = set(map(id, self.sharing.draining))  # by identity, as a new level may have the same name
        self._draining = [runtime for runtime in self._draining if id(runtime.shared) in still]
        self._forget_streams()
        schemas: dict[str, set[str]] = {name: set() for name in self.levels}
        anywhere = self.configuration.lets_name_queues  # then a schema's requests may be at any level
        for schema in self.configuration.schemas:
            for names in schemas.values() if anywhere else (schemas.setdefault(schema.level, set()),):
                names.add(schema.name)
        done = [runtime.forget_schemas(schemas[name], now) for name, runtime in self.levels.items()]
        self._has_leftovers = bool(self._draining) or not all(done)

    def __repr__(self) -> str:
        return f"<LevelRegistry: {len(self.levels)} levels, and {len(self._draining)} draining>"
