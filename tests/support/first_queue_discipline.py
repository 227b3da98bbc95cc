"""The most unfair discipline, for tests of what must hold with any discipline."""

from apf_middleware.fairqueuing import EqualSerial
from apf_middleware.fairqueuing.ticket import Queue
from tests.support.delegating_discipline import DelegatingDiscipline

__all__ = ["FirstQueue"]


class FirstQueue(DelegatingDiscipline, of=EqualSerial):
    """Serves the first queue where something waits, so that all others starve."""

    def __init__(self, concurrency: int, guess_ns: int) -> None:
        super().__init__(concurrency, guess_ns)
        self.queues: list[Queue] = []

    def open_queue(self, index: int) -> Queue:
        self.queues.append(super().open_queue(index))
        return self.queues[-1]

    def close(self, queue: Queue, *, closing_up: bool) -> None:
        super().close(queue, closing_up=closing_up)
        self.queues.remove(queue)

    def pick(self, widest: int | None = None) -> int:
        fitting = (
            queue.index
            for queue in self.queues
            if queue.oldest is not None and (widest is None or queue.oldest.width <= widest)
        )
        index = next(fitting, None)
        if index is None:
            raise LookupError("no request waits")
        return index
