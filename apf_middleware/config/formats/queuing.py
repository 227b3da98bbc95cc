"""The queues of a level in ``apf/v1``: numbers as in the other formats, or exact ones, and how wide requests wait."""

from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field

from apf_middleware.config.formats.rules import QueuingModel, queuing_rules
from apf_middleware.config.objects import Queuing
from apf_middleware.config.settings import Violation
from apf_middleware.fairqueuing.queueset_settings import MAX_QUEUES

__all__ = ["BACKFILL", "MAX_BACKFILL", "LevelQueuingModel"]

BACKFILL: Final = 2
"""Rounds in which others pass a wide request, where nothing is said: most of what is to be won by passing at all."""

MAX_BACKFILL: Final = 100
"""More rounds than that are as good as no bound."""

_PLACES: Final = 1024
_SHARED: Final = 64


class LevelQueuingModel(QueuingModel):
    """Numbers of queues, or ``exact``: a queue for each flow; of numbers, 0 means the default."""

    queues: int | Literal["exact"] = Field(default=64, description="A number, or 'exact': a queue for each flow.")  # type: ignore[assignment]
    max_queues: int | None = Field(
        default=None, description="How many flows have a queue each, where queues are exact."
    )
    shared_queues: int | None = Field(default=None, description="For the flows beyond maxQueues.")
    backfill: int = Field(default=BACKFILL, description="Rounds in which others pass a request that waits for seats.")

    def rules(self) -> Iterator[Violation]:
        exact = self.queues == "exact"
        for key, value in (("maxQueues", self.max_queues), ("sharedQueues", self.shared_queues)):
            if value is not None and not exact:
                yield Violation((key,), value, "it must be absent unless queues are exact", "Write 'queues: exact'")
        if exact and self.max_queues is not None and not 1 <= self.max_queues <= MAX_QUEUES // 2:
            yield Violation(("maxQueues",), self.max_queues, f"it must be from 1 to {MAX_QUEUES // 2}")
        if not 0 <= self.backfill <= MAX_BACKFILL:
            yield Violation(("backfill",), self.backfill, f"it must be from 0 to {MAX_BACKFILL}")
        for broken in queuing_rules(self.built()):
            path = ("sharedQueues",) if exact and broken.path == ("queues",) else broken.path
            yield Violation(path, broken.value, broken.rule, broken.hint)

    def built(self) -> Queuing:
        hand, limit = self.hand_size or 8, self.queue_length_limit or 50
        if self.queues == "exact":
            shared = _SHARED if self.shared_queues is None else self.shared_queues
            if "hand_size" not in self.model_fields_set:
                hand = max(1, min(hand, shared))
            places = _PLACES if self.max_queues is None else self.max_queues
            return Queuing(shared, hand, limit, exact=places, backfill=self.backfill)
        return Queuing(self.queues or 64, hand, limit, backfill=self.backfill)
