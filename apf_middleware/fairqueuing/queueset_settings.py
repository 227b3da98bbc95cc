"""The settings of a queue set, and the rules for their values."""

from dataclasses import dataclass

from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError, require_flag, require_integer
from apf_middleware.fairqueuing.shuffle import Dealer

__all__ = ["MAX_QUEUES", "QueueSetSettings", "require_settings"]

MAX_QUEUES = 10_000_000
"""The greatest number of queues of one level, as in Kubernetes."""


@dataclass(frozen=True, slots=True)
class QueueSetSettings(Value):
    """A level's seats and queues.

    There are ``queues`` queues, of which a flow may use ``hand_size``; each holds up to ``queue_length_limit`` waiting
    requests. With 0 queues no request waits: one that doesn't fit is rejected. An ``exempt`` level admits all requests
    and only counts them. In ``fifo`` queues no request passes an earlier one of the same flow that waits for a gate.

    Up to ``exact`` flows have a queue each, and only further flows share the ``queues``. While the next request needs
    more seats than are free, others may pass it in up to ``backfill`` rounds (see `seats`).
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
        require_flag("exempt", self.exempt)
        require_flag("fifo", self.fifo)
        if self.exempt and self.queues:
            raise InvalidValueError("queues", self.queues, "an exempt level has none, because no request waits there")
        if self.exact and not self.queues:
            rule = "there must be queues for further flows"
            raise InvalidValueError("exact", self.exact, rule, hint="Set queues to at least 1")
        if self.queues:
            Dealer(self.queues, self.hand_size)
            require_integer("queue_length_limit", self.queue_length_limit, least=1)

    @classmethod
    def without_queues(cls, concurrency: int) -> "QueueSetSettings":
        """Return the settings of a level without queues: a request that doesn't fit is rejected."""
        return cls(concurrency, queues=0, hand_size=0, queue_length_limit=0)

    @classmethod
    def without_limit(cls, concurrency: int = 0) -> "QueueSetSettings":
        """Return the settings of an exempt level, which admits and counts all requests."""
        return cls(concurrency, queues=0, hand_size=0, queue_length_limit=0, exempt=True)

    def dealer(self) -> Dealer | None:
        """Return the dealer of the hands; None without queues."""
        return Dealer(self.queues, self.hand_size) if self.queues else None


def require_settings(settings: object) -> None:
    """Raise InvalidValueError unless these are settings."""
    if not isinstance(settings, QueueSetSettings):
        raise InvalidValueError("settings", settings, "it must be a QueueSetSettings")
