"""The fleet of a scenario: how many members, what its network does to messages, and what happens to it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from apf_middleware.config.scenario.durations import AnyDuration, UniformDuration
from apf_middleware.config.settings import Rules, Settings, Violation
from apf_middleware.config.values import Nanoseconds
from apf_middleware.frozen import frozen

__all__ = ["AnyMembers", "FleetEvent", "ScenarioMembers"]

_MS = 10**6
_MOST_MEMBERS = 10_000


@frozen
class FleetEvent(Settings):
    """Something that happens to a fleet ``at_ns``, for ``duration_ns``; None means that it doesn't end.

    ``crash`` ends the processes of ``members`` with all their requests; others start in their places after the
    duration. ``partition`` loses all messages of ``members``. ``allocator-crash`` ends the allocator; another one takes
    over after the duration, by default after the time that the store needs to notice.
    """

    renamed: ClassVar[Mapping[str, str]] = {"for": "duration", "kind": "type", "time": "at"}

    type: Literal["crash", "partition", "allocator-crash"]
    at_ns: Nanoseconds
    duration_ns: Nanoseconds | None = None
    members: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False)] = ()

    def rules(self) -> Iterator[Violation]:
        needs_members = self.type != "allocator-crash"
        if needs_members and not self.members:
            yield Violation(("members",), self.members, "it must have the numbers of members", "Write it like [0, 3]")
        if not needs_members and self.members:
            yield Violation(("members",), self.members, "the crash of an allocator has none", "Remove it")


@frozen
class ScenarioMembers(Settings):
    """``count`` processes in front of one backend.

    If the server has a ``fleet``, they share its seats; otherwise each has all of them. A message takes ``delay`` and
    is lost with the probability ``loss``. The allocator takes ``division_ns`` to divide the seats; reports that arrive
    meanwhile are taken together.
    """

    renamed: ClassVar[Mapping[str, str]] = {
        "balancer": "Write balancing beside members",
        "interval": "Write it under fleet in the Server document",
        "lease": "Write it under fleet in the Server document",
        "lost": "loss",
        "latency": "delay",
    }

    count: Annotated[int, Field(ge=1, le=_MOST_MEMBERS)]
    delay: AnyDuration = field(default_factory=lambda: UniformDuration(_MS // 10, _MS))
    loss: Annotated[float, Field(ge=0, lt=1)] = 0.0
    division_ns: Nanoseconds = _MS
    events: Annotated[tuple[FleetEvent, ...], Field(strict=False)] = ()

    def rule_sets(self) -> Iterable[Rules]:
        return (self._event_rules,)

    def _event_rules(self) -> Iterator[Violation]:
        for place, event in enumerate(self.events):
            for number, member in enumerate(event.members):
                if member >= self.count:
                    rule = f"it must be less than {self.count}, the number of members, because they count from 0"
                    yield Violation(("events", place, "members", number), member, rule)


def _expanded(given: object) -> object:
    """Expand the short form: a number means as many members."""
    return {"count": given} if isinstance(given, int) else given


AnyMembers = Annotated[ScenarioMembers, BeforeValidator(_expanded)]
"""The members of a fleet; in YAML a number means only their number."""
