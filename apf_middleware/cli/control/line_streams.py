"""Answers of several workers that go on for a time, read line by line as they come.

Each worker has a thread that reads its lines into one bounded queue. If the command is too slow, the threads wait, and
then the workers count what they have to drop.
"""

import http.client
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from apf_middleware.cli.control.threads import in_background
from apf_middleware.cli.control.workers import OpenAnswer, Reply, Worker, describe_failure, open_answer

if TYPE_CHECKING:
    from apf_middleware.asgi.admin.documents import ProblemDocument

__all__ = ["LineStreams", "StreamEvent"]

_MOST_LINES: Final = 10_000
_LONGEST: Final = 2**20  # bytes of a line
_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A line of the stream with this number; or its end if ``line`` is None, with the reason if it is cut off."""

    stream: int
    line: str | None
    trouble: str = ""


class LineStreams:
    """The answers of ``workers`` to a POST of ``body``; ``replies`` are those that have begun or been refused."""

    def __init__(self, workers: Sequence[Worker], path: str, body: Mapping[str, object], timeout: float) -> None:
        asked = [in_background(partial(open_answer, worker, path, body, timeout)) for worker in workers]
        answers = [answer.result() for answer in asked]
        self.replies: list[Reply[ProblemDocument]] = []
        self.workers: list[Worker] = []  # those that have begun
        opened: list[OpenAnswer] = []
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, Reply):
                self.replies.append(answer)
            else:
                self.replies.append(Reply(worker.name, answer.response.status))
                self.workers.append(worker)
                opened.append(answer)
        self._events: Queue[StreamEvent] = Queue(_MOST_LINES)
        self._is_over = Event()
        self._open: set[int] = set(range(len(opened)))
        for number, answer in enumerate(opened):
            Thread(target=self._read, args=(number, answer), daemon=True, name=f"apf-{number}").start()

    @property
    def is_open(self) -> bool:
        """Whether any stream has not ended yet."""
        return bool(self._open)

    def read(self) -> Iterator[StreamEvent]:
        """Yield what has come, after a short wait if nothing has."""
        wait = _PAUSE_S
        while True:
            try:
                event = self._events.get(timeout=wait) if wait else self._events.get_nowait()
            except Empty:
                return
            wait = 0.0
            if event.line is None:
                self._open.discard(event.stream)
            yield event

    def close(self) -> None:
        """Read no more."""
        self._is_over.set()
        self._open.clear()

    def _read(self, number: int, answer: OpenAnswer) -> None:
        trouble = ""
        try:
            while line := answer.response.readline(_LONGEST):
                self._put(StreamEvent(number, line.decode("utf-8", "replace")))
                if self._is_over.is_set():
                    break
        except (OSError, http.client.HTTPException, ValueError) as error:
            trouble = describe_failure(error)
        finally:
            answer.close()
            self._put(StreamEvent(number, None, trouble))

    def _put(self, event: StreamEvent) -> None:
        while not self._is_over.is_set():
            try:
                self._events.put(event, timeout=_PAUSE_S)
            except Full:
                continue
            return
