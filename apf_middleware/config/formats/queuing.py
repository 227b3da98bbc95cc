"""The queues of a level: numbers as in all formats, and in ``apf/v1`` also exact queues and rounds of back-fill."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, WrapValidator

from apf_middleware.config.objects import Queuing
from apf_middleware.config.settings import Settings, Violation, make_unchecked, number_or_word
from apf_middleware.config.values import MAX_INT32
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.queueset_settings import MAX_QUEUES
from apf_middleware.fairqueuing.shuffle import Dealer
from apf_middleware.frozen import frozen

__all__ = ["BACKFILL", "MAX_BACKFILL", "LevelQueuingModel", "QueuingModel", "queuing_rules"]

BACKFILL: Final = 2
"""The default number of rounds of back-fill; more rounds would gain little."""

MAX_BACKFILL: Final = 100
"""The maximum number of rounds; more would hardly differ from no limit."""

_QUEUES: Final = 64
_HAND: Final = 8
_LENGTH: Final = 50
_EXACT_QUEUES: Final = 1024
_RENAMED: Final = {"queueLength": "queueLengthLimit", "hand": "handSize", "numQueues": "queues"}
_NUMBERS: Final = frozenset({"queues", "hand_size", "queue_length_limit"})
_Number = Annotated[int, Field(le=MAX_INT32, json_schema_extra={"minimum": 0})]
_Queues = Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": MAX_QUEUES})]


def _hand_schema(schema: dict[str, Any]) -> None:
    choices: list[dict[str, Any]] = schema.pop("anyOf")
    schema.update(choices[0], default=_HAND)


@frozen
class QueuingModel(Settings):
    """Numbers of queues; 0 means the default, as in Kubernetes' API."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED
    always_written: ClassVar[frozenset[str]] = _NUMBERS

    queues: _Number = _QUEUES
    hand_size: _Number = _HAND
    queue_length_limit: _Number = _LENGTH

    def rules(self) -> Iterator[Violation]:
        yield from queuing_rules(self.built())

    def built(self) -> Queuing:
        """Return the queues."""
        return Queuing(self.queues or _QUEUES, self.hand_size or _HAND, self.queue_length_limit or _LENGTH)


@frozen
class LevelQueuingModel(Settings):
    """Numbers of queues, or ``exact``: a queue for each flow. For numbers as in `QueuingModel`, 0 means the default."""

    renamed: ClassVar[Mapping[str, str]] = _RENAMED
    always_written: ClassVar[frozenset[str]] = _NUMBERS

    queues: Annotated[_Queues | Literal["exact"], WrapValidator(number_or_word)] = _QUEUES
    hand_size: Annotated[_Number | None, Field(json_schema_extra=_hand_schema)] = None
    queue_length_limit: _Number = _LENGTH
    max_queues: Annotated[
        Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": MAX_QUEUES // 2})] | None,
        Field(description="The number of flows that have a queue each, if queues are exact."),
    ] = None
    shared_queues: Annotated[
        Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": MAX_QUEUES})] | None,
        Field(description="The number of queues for flows beyond maxQueues."),
    ] = None
    backfill: Annotated[
        int,
        Field(
            description="The number of rounds in which others may pass a request that waits for several seats.",
            json_schema_extra={"minimum": 0, "maximum": MAX_BACKFILL},
        ),
    ] = BACKFILL

    def rules(self) -> Iterator[Violation]:
        exact = self.queues == "exact"
        for name in ("max_queues", "shared_queues"):
            if getattr(self, name) is not None and not exact:
                rule = "it must be absent unless queues are exact"
                yield Violation((name,), getattr(self, name), rule, "Write 'queues: exact'")
        if exact and self.max_queues is not None and not 1 <= self.max_queues <= MAX_QUEUES // 2:
            yield Violation(("max_queues",), self.max_queues, f"it must be from 1 to {MAX_QUEUES // 2}")
        if not 0 <= self.backfill <= MAX_BACKFILL:
            yield Violation(("backfill",), self.backfill, f"it must be from 0 to {MAX_BACKFILL}")
        for broken in queuing_rules(self.built()):
            path = ("shared_queues",) if exact and broken.path == ("queues",) else broken.path
            yield Violation(path, broken.value, broken.rule, broken.hint)

    def built(self) -> Queuing:
        """Return the queues."""
        hand, limit = self.hand_size or _HAND, self.queue_length_limit or _LENGTH
        if isinstance(self.queues, int):
            return Queuing(self.queues or _QUEUES, hand, limit, backfill=self.backfill)
        shared = _QUEUES if self.shared_queues is None else self.shared_queues
        if self.hand_size is None:
            hand = max(1, min(hand, shared))
        exact = _EXACT_QUEUES if self.max_queues is None else self.max_queues
        return Queuing(shared, hand, limit, exact=exact, backfill=self.backfill)

    @classmethod
    def of(cls, queuing: Queuing) -> "LevelQueuingModel":
        """Return the settings of these queues."""
        given: dict[str, object] = {
            "queues": queuing.queues,
            "hand_size": queuing.hand_size,
            "queue_length_limit": queuing.queue_length_limit,
            "backfill": queuing.backfill,
        }
        if queuing.exact:
            given |= {"queues": "exact", "max_queues": queuing.exact, "shared_queues": queuing.queues}
        return make_unchecked(cls, given)


def queuing_rules(queuing: Queuing) -> Iterator[Violation]:
    """Yield the rules that the numbers break."""
    queues, hand = queuing.queues, queuing.hand_size
    if not 1 <= queues <= MAX_QUEUES:
        yield Violation(("queues",), queues, f"it must be from 1 to {MAX_QUEUES}")
    if hand < 1:
        yield Violation(("hand_size",), hand, "it must be at least 1")
    elif queues >= 1 and hand > queues:
        hint = "Write a handSize of about a quarter of the queues or less, so that a busy flow leaves some to others"
        yield Violation(("hand_size",), hand, f"it must not exceed the {queues} queues", hint)
    elif 1 <= queues <= MAX_QUEUES:
        try:
            Dealer(queues, hand)
        except InvalidValueError as error:
            yield Violation(("hand_size",), hand, error.rule, error.hint)
    if queuing.queue_length_limit < 1:
        yield Violation(("queue_length_limit",), queuing.queue_length_limit, "it must be at least 1")
