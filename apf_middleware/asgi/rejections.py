"""The answers to rejected requests: a status, a Retry-After time and a problem document.

Under overload most requests are rejected, nearly all of them on arrival. Their answers have few different contents, so
each answer is written once and kept. For a single request, only the facts that differ are determined: the seconds of
Retry-After, which are random, and whether the caller's own requests fill the queue. The answer to a request that has
waited contains the duration, and that of a gate its own time, so these are written for each request.
"""

from collections.abc import Mapping
from math import ceil
from random import Random
from typing import TYPE_CHECKING, Final

from apf_middleware.asgi.response_headers import ResponseHeaders
from apf_middleware.asgi.responses import PROBLEM, Answer, answer_problem, describe_problem
from apf_middleware.asgi.telemetry import timing_header
from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.fairqueuing import Reason
from apf_middleware.runtime import Admission, expected_wait_s, jittered_s

if TYPE_CHECKING:
    from apf_middleware.gates import Refusal
    from apf_middleware.metrics.schema_counters import SchemaCounters

__all__ = ["RejectionAnswers"]

_KEPT: Final = 128
_SECOND: Final = 10**9
_VALID_NS: Final = 50_000_000  # the rate is an average over seconds, so measuring it more often would tell nothing
_STATUS: Final = {
    Reason.QUEUE_CLOSED: 503,
    Reason.QUEUE_CLOSING: 503,
    Reason.SLOW_BODY: 408,
    Reason.DEADLINE: 504,
}
_BODIES: Final = frozenset({Reason.SLOW_BODY, Reason.BODY_LIMIT})  # the rest of the body is never received
_BY_GATES: Final = frozenset({Reason.GATE, Reason.TIME_OUT})  # a gate may have refused the request
_DETAILS: Final[Mapping[Reason, str]] = {
    Reason.QUEUE_FULL: "The queue for requests like this one is full.",
    Reason.CONCURRENCY_LIMIT: "All seats for requests like this one are taken, and such requests are not queued.",
    Reason.TIME_OUT: "No seat came free within the time that a request may wait.",
    Reason.CANCELLED: "The client has disconnected.",
    Reason.QUEUE_CLOSED: "The queue for requests like this one is closed.",
    Reason.QUEUE_CLOSING: "The queue for requests like this one is closing.",
    Reason.STREAM_LIMIT: "The maximum number of streams like this one is open.",
    Reason.SLOW_BODY: "The request's body arrived too slowly.",
    Reason.BODY_LIMIT: "The maximum number of requests are already waiting for their bodies.",
    Reason.DEADLINE: "The answer would have been later than the request's deadline.",
    Reason.GATE: "A resource that this request needs did not become available in time.",
}
# Module globals, because an attribute look-up in an Enum is much slower.
_QUEUE_FULL: Final = Reason.QUEUE_FULL
_STREAM_LIMIT: Final = Reason.STREAM_LIMIT
_DEADLINE: Final = Reason.DEADLINE


class _Prepared:
    """The common part of all requests of one schema and level that are rejected on arrival for one reason.

    ``expected_s`` is the time after which the requests ahead will have been served; it is valid before the time
    ``until``. ``answers`` are those that have been written, by Retry-After and the problem's ``own_flow``.
    """

    __slots__ = ("answers", "expected_s", "tells_own_flow", "until")

    expected_s: float
    tells_own_flow: bool

    def __init__(self, now: int) -> None:
        self.until = now
        self.answers: BoundedCache[tuple[int, bool | None], Answer] = BoundedCache(_KEPT)


class RejectionAnswers:
    """The answers to rejected requests; ``response_headers`` name schema and level, ``chance`` is for the jitter."""

    __slots__ = ("_bounds", "_chance", "_prepared", "_response_headers", "_settings")

    def __init__(self, response_headers: ResponseHeaders, chance: Random | None = None) -> None:
        self._response_headers = response_headers
        self._settings = response_headers.settings
        self._bounds = self._settings.retry_after
        self._chance = Random() if chance is None else chance  # noqa: S311 - not for security
        # The last part of the key is whether the server shuts down. Clients choose no part of it.
        self._prepared: dict[tuple[SchemaCounters, Reason, bool], _Prepared] = {}

    def find(self, admission: Admission) -> Answer:
        """Return the answer to a rejected request; it may be the answer to other requests, too."""
        reason, now, destination = admission.reason, admission.rejected_at, admission.destination
        assert reason is not None, "the admission has been rejected"
        if reason is _DEADLINE and (late_by_s := _late_by_s(admission)) is not None:
            # later the request may have less to wait for
            seconds = self._jittered_s(late_by_s)
            return self._write(admission, reason, seconds, status=self._settings.status)
        if now != admission.arrived_at or reason in _BY_GATES:
            return self._write_for(admission, reason)
        key = destination.counters, reason, destination.controller.is_closing
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = _Prepared(now)
        if prepared.until <= now:
            prepared.until = now + _VALID_NS
            prepared.expected_s = self._expected_s(admission, reason)
            prepared.tells_own_flow = _tells_own_flow(admission, reason)
        seconds = self._jittered_s(prepared.expected_s)
        own_flow = _is_own_flow(admission) if prepared.tells_own_flow else None
        answers = prepared.answers
        answer = answers.young.get((seconds, own_flow)) or answers.get((seconds, own_flow))
        if answer is None:
            answer = self._write(admission, reason, seconds, own_flow=own_flow)
            answers.put((seconds, own_flow), answer)
        return answer

    def _write_for(self, admission: Admission, reason: Reason) -> Answer:
        """Write the answer to a single request."""
        refusal: Refusal | None = getattr(admission, "refusal", None)
        if refusal is not None and refusal.retry_after is not None:
            seconds = max(1, ceil(refusal.retry_after))
        else:
            seconds = self._jittered_s(self._expected_s(admission, reason))
        own_flow = _is_own_flow(admission) if _tells_own_flow(admission, reason) else None
        return self._write(admission, reason, seconds, own_flow=own_flow, refusal=refusal)

    def write_late(self, admission: Admission) -> Answer:
        """Write the answer to a request that got its seats after its deadline, and has given them back."""
        return self._write(admission, _DEADLINE, self._jittered_s(self._expected_s(admission, _DEADLINE)))

    def _jittered_s(self, expected_s: float) -> int:
        return jittered_s(expected_s, self._bounds.least_s, self._bounds.most_s, self._chance)

    def _expected_s(self, admission: Admission, reason: Reason) -> float:
        """Return the seconds after which the requests ahead will have been served at the current rate."""
        runtime = admission.destination.runtime
        now = admission.destination.controller.now()  # events since the rejection count, too
        if reason is _STREAM_LIMIT:
            ahead, rate = 1, runtime.streams.drain.sample(now, runtime.streams.closed)
        else:
            ahead = runtime.shared.queueset.waiting + 1
            if reason is _DEADLINE and ahead == 1:  # no request waits, so another one gets its seats at once
                return 0
            rate = runtime.service_rate(now)
        return expected_wait_s(ahead, rate, self._bounds.least_s, self._bounds.most_s)

    def _write(
        self,
        admission: Admission,
        reason: Reason,
        seconds: int,
        *,
        own_flow: bool | None = None,
        refusal: "Refusal | None" = None,
        status: int | None = None,
    ) -> Answer:
        are_names = self._response_headers.are_names
        ends = reason is Reason.QUEUE_CLOSED and admission.destination.controller.is_closing
        status = status or _STATUS.get(reason) or (self._settings.status if refusal is None else refusal.status)
        cause = Reason.GATE if refusal is not None and reason is Reason.TIME_OUT else reason
        detail = "The server is shutting down." if ends else _DETAILS[cause]
        problem = describe_problem(status, reason.value, detail)
        problem |= {"waited": round(admission.waited, 3), "retry_after": seconds}
        if own_flow is not None:
            problem["own_flow"] = own_flow
        if refusal is not None and are_names:
            problem["gate"] = refusal.gate
        if are_names:
            problem |= {"level": admission.level, "schema": admission.schema}
        named = self._response_headers.of(admission.destination.classification)
        headers = [PROBLEM, (b"retry-after", b"%d" % seconds), *named]
        if ends or reason in _BODIES:
            headers.append((b"connection", b"close"))
        if self._settings.server_timing:
            headers.append(timing_header(admission))
        return answer_problem(status, headers, problem)

    def __repr__(self) -> str:
        return f"<RejectionAnswers of {len(self._prepared)} kinds>"


def _late_by_s(admission: Admission) -> float | None:
    """Return by how much a request that was rejected on arrival would be late; None if its time is really over."""
    predicted_ns, latest = admission.predicted_wait_ns, admission.latest_start_ns
    if predicted_ns is None or latest is None or admission.rejected_at != admission.arrived_at:
        return None
    return max(0, admission.arrived_at + predicted_ns - latest) / _SECOND


def _tells_own_flow(admission: Admission, reason: Reason) -> bool:
    """Return whether the caller is told that its own flow fills the queue: only if there is more than one queue."""
    return reason is _QUEUE_FULL and admission.destination.runtime.shared.queueset.settings.queues > 1


def _is_own_flow(admission: Admission) -> bool:
    """Return whether at least half of the queue consists of requests of the caller's own flow."""
    queue = admission.queue
    return queue is not None and queue.is_mostly(admission.entropy)
