"""What can be set on a queue set, and the rules that the numbers must keep."""

from dataclasses import dataclass

from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing.shuffle import Dealer

__all__ = ["MAX_QUEUES", "QueueSetSettings", "require_settings"]

MAX_QUEUES = 10_000_000
"""The most queues of one level, upstream's bound."""


@dataclass(frozen=True, slots=True)
class QueueSetSettings:
    """A level's seats and queues.

    With ``queues`` there are that many, and a flow may use ``hand_size`` of them; each holds ``queue_length_limit``
    waiting requests. Without (0), nobody waits: a request that doesn't fit is rejected. An ``exempt`` level admits
    everything and only counts. Where queues are ``fifo``, nobody overtakes an earlier request of the same flow that a
    gate keeps waiting.

    So many flows as ``exact`` says have a queue each, and only those beyond them share the ``queues``. In so many
    rounds as ``backfill`` says others may pass one that waits for more seats than are free (see `reservation`).
    """

    concurrency: int
    queues: int = 64
    hand_size: int = 8
    queue_length_limit: int = 50
    exempt: bool = False
    exact: int = 0
    backfill: int = 0
    fifo: bool = False

    def __post_init__(self) -> None:
        require_integer("concurrency", self.concurrency, least=0)
        require_integer("queues", self.queues, least=0, most=MAX_QUEUES)
        require_integer("exact", self.exact, least=0, most=MAX_QUEUES - self.queues)
        require_integer("backfill", self.backfill, least=0)
        if not isinstance(self.exempt, bool):
            raise InvalidValueError("exempt", self.exempt, "it must be True or False")
        if not isinstance(self.fifo, bool):
            raise InvalidValueError("fifo", self.fifo, "it must be True or False")
        if self.exempt and self.queues:
            raise InvalidValueError("queues", self.queues, "an exempt level has none, for nobody waits there")
        if self.exact and not self.queues:
            rule = "there must be queues for the flows that come beyond them"
            raise InvalidValueError("exact", self.exact, rule, hint="Set queues to at least 1")
        if self.queues:
            Dealer(self.queues, self.hand_size)
            require_integer("queue_length_limit", self.queue_length_limit, least=1)

    @classmethod
    def without_queues(cls, concurrency: int) -> "QueueSetSettings":
        """Nobody waits: who doesn't fit is rejected."""
        return cls(concurrency, queues=0, hand_size=0, queue_length_limit=0)

    @classmethod
    def without_limit(cls, concurrency: int = 0) -> "QueueSetSettings":
        """An exempt level: everybody is admitted and counted."""
        return cls(concurrency, queues=0, hand_size=0, queue_length_limit=0, exempt=True)

    def dealer(self) -> Dealer | None:
        """Who deals the hands; nobody where there are no queues."""
        return Dealer(self.queues, self.hand_size) if self.queues else None


def require_settings(settings: object) -> None:
    """InvalidValueError unless these are settings."""
    if not isinstance(settings, QueueSetSettings):
        raise InvalidValueError("settings", settings, "it must be a QueueSetSettings")
