"""The recorder of one recording: it observes requests, and keeps those that have ended until they are sent.

A row is made when its request ends, so that rows that wait for the client keep no scopes in memory. Their number is
bounded: those beyond are lost, and counted.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from apf_middleware.asgi.recording.disguise import Disguise
from apf_middleware.asgi.recording.observation import ArrivedRequest, RecordedObservation
from apf_middleware.classification import ANONYMOUS
from apf_middleware.recordings import Pseudonyms, RecordedRequest
from apf_middleware.recordings.marks import Names
from apf_middleware.runtime import log_event

if TYPE_CHECKING:
    from apf_middleware.asgi.resolver import ResolvedRequest
    from apf_middleware.runtime import Admission, Destination

__all__ = ["MOST_ROWS_WAITING", "Recorder", "RecordingSettings"]

MOST_ROWS_WAITING: Final = 20_000
"""The number of rows that may wait for the client."""


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """The settings of a recording, and the caller who has asked for it."""

    id: str
    by: str
    seconds: float
    sample: float
    names: Names


class Recorder:
    """Records requests from now on; ``address_of`` returns the address of a request's client."""

    def __init__(
        self,
        settings: RecordingSettings,
        disguise: Disguise,
        pseudonyms: Pseudonyms,
        *,
        now: Callable[[], int],
        address_of: Callable[[Scope], str],
    ) -> None:
        self.settings: RecordingSettings = settings
        self.disguise: Disguise = disguise
        self.began_at: int = now()
        self.rows: int = 0
        self.lost: int = 0
        self.standing: int = 0  # requests that had arrived before the beginning
        self.is_stopped: bool = False
        self.address_of: Callable[[Scope], str] = address_of
        self._now = now
        self._last_at = self.began_at
        self._until = self.began_at + round(settings.seconds * 10**9)
        self._part_of = pseudonyms.part_of
        self._open: set[RecordedObservation] = set()
        self._ended: deque[RecordedRequest] = deque()
        self._has_failed = False

    @property
    def seconds(self) -> float:
        """The time since the beginning."""
        return (self._now() - self.began_at) / 10**9

    @property
    def is_over(self) -> bool:
        """Whether the time of the recording is over."""
        return self._now() >= self._until

    def begin(self, scope: Scope, resolved: "ResolvedRequest") -> RecordedObservation | None:
        """Observe a request, if its flow is in the sample."""
        if self.is_stopped or self.is_over:
            return None  # the client is still reading
        if self.settings.sample < 1:
            name = _sampled_name(resolved) or self.address_of(scope)
            if self._part_of(name) >= self.settings.sample:
                return None
        # Rows are sorted by time, and requests that arrive at the same time must stay in their order.
        self._last_at = max(self._now(), self._last_at + 1)
        found = RecordedObservation(self._last_at, ArrivedRequest.of(scope, resolved), self._end)
        self._open.add(found)
        return found

    def adopt(self, admissions: Iterable["Admission"]) -> None:
        """Observe requests that wait or run already, as if they came at the beginning in this order."""
        for admission in admissions:
            if self.settings.sample < 1 and self._part_of(_sampled_name(admission.destination)) >= self.settings.sample:
                continue
            self.standing += 1
            self._last_at += 1
            found = RecordedObservation(self._last_at, ArrivedRequest.before(admission.destination), self._end)
            admission.observations = (*getattr(admission, "observations", ()), found)
            if admission.is_seated:
                found.note_running(admission)
            self._open.add(found)

    def _end(self, observation: RecordedObservation) -> None:
        """Keep a request that has ended until it is sent, if there is room."""
        self._open.discard(observation)
        if not self.is_stopped:
            self._keep(observation)

    def _keep(self, observation: RecordedObservation) -> None:
        if len(self._ended) >= MOST_ROWS_WAITING:
            self.lost += 1
            return
        try:
            self._ended.append(observation.request(self.began_at, self.disguise, self.address_of))
        except Exception as error:  # noqa: BLE001 - objects of servers and frameworks; no request may suffer from them
            self.lost += 1
            if not self._has_failed:
                log_event(logging.WARNING, "apf.recording-error", id=self.settings.id, error=f"{error!r}")
            self._has_failed = True

    def take(self, most: int) -> Iterator[RecordedRequest]:
        """Yield at most ``most`` requests that have ended, each once."""
        for _ in range(min(most, len(self._ended))):
            self.rows += 1
            yield self._ended.popleft()

    def stop(self) -> None:
        """Record no more, from the first call on; requests that haven't ended yet are kept as they are now."""
        self.is_stopped = True
        for one in sorted(self._open, key=lambda one: one.at):
            one.note_unfinished()
            self._keep(one)
        self._open.clear()

    @property
    def has_more(self) -> bool:
        """Whether there are requests to send."""
        return bool(self._ended)

    def __repr__(self) -> str:
        return f"<Recorder {self.settings.id}: {self.rows} rows, {self.lost} lost>"


def _sampled_name(destination: "Destination") -> str:
    """Return the name by which a request is in the sample or not: that of its flow, or of its caller."""
    name = destination.identity.name
    return destination.classification.flow or ("" if name == ANONYMOUS.name else name)
