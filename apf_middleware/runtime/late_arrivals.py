"""Find the requests that can't be in time when they arrive, and reject them if the configuration says so.

A request that is rejected on arrival can still go elsewhere, while one that waits until its deadline has wasted its
client's time. But a wrong prediction rejects a request that could be served. So a request is judged by the prediction
and its expected error (see `WaitErrors`): it must be in time even if it waits longer than predicted by that much. If
errors are too large, none is rejected. Nor is a request ever judged if a seat is free for it or if nothing waits ahead
in its own queue.

Some of those that would be rejected wait nevertheless. They show the errors, so a wrong estimate can't persist. And
they are a reserve: in a burst, the seats would be idle too early if waits were predicted a little too long.

Requests that are expected to be late don't count as ahead of others. Where they are only counted (``shadow``), as many
requests are counted as would be rejected, although all of them wait. Which ones are late differs then: in a full queue,
each request that gets seats takes them from another one. So compare numbers, not single requests.
"""

from collections import Counter
from typing import Final

from apf_middleware.config.deadlines import PredictionMode
from apf_middleware.estimation import LearnedCosts
from apf_middleware.fairqueuing.ticket import Queue
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.wait_errors import USUAL_ERROR, WaitErrors
from apf_middleware.runtime.wait_prediction import WaitPrediction

__all__ = ["OUTCOMES", "LateArrivals"]

OUTCOMES: Final = ("late", "rejected", "missed", "in-time")
"""Requests that were expected to be late; those of them that were rejected; and of all requests with a deadline that
waited, those whose wait ended unserved, and those that were expected to be late and got their seats in time."""

_PASSING: Final = 20  # one late request out of this many waits nevertheless,
_OF_QUEUE: Final = 5  # unless one out of this many in its queue is such a request already
_LARGE: Final = 0.5  # an error that makes predictions useless


class LateArrivals:
    """The requests that can't be in time; ``outcomes`` counts them by level and outcome (see `OUTCOMES`).

    ``predicted_ns`` and ``waited_ns`` are the sums of the predicted and the real waits of requests that got seats.
    ``factor`` replaces the expected errors: a request must have ``factor`` times its predicted wait left. It is for
    benchmarks.
    """

    __slots__ = (
        "_errors",
        "_late",
        "_mode",
        "_passing",
        "factor",
        "outcomes",
        "predicted_ns",
        "prediction",
        "waited_ns",
    )

    def __init__(self, mode: PredictionMode, costs: LearnedCosts) -> None:
        self._mode = mode
        self._errors: dict[str, WaitErrors] = {}
        self._late: dict[Admission, Queue] = {}  # those that wait nevertheless
        self._passing: Counter[Queue] = Counter()  # and their number
        self.factor: float | None = None
        self.prediction: WaitPrediction = WaitPrediction(costs)
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.predicted_ns: Counter[str] = Counter()
        self.waited_ns: Counter[str] = Counter()

    def adopt(self, mode: PredictionMode) -> None:
        """Put a mode in force after a reload; requests that wait aren't judged again."""
        self._mode = mode
        self.prediction.forget_removed()

    def reject(self, now: int, admission: Admission) -> bool:
        """Return whether a request that has just begun to wait is to be rejected; otherwise follow its wait."""
        destination, queue = admission.destination, admission.queue
        shared = destination.runtime.shared
        if queue is None or destination.gates:  # a parked request is in no queue
            return False
        wait_ns = None if shared.is_held or shared.is_draining else self.prediction.predict(now, admission)
        is_late = False
        if wait_ns is not None:
            admission.predict_wait(wait_ns)
            is_late = queue.length > 1 and self._is_late(now, admission, wait_ns)
        if is_late:
            level = admission.level
            self.outcomes[level, "late"] += 1
            if self._mode == "on" and not self._may_pass(level, queue):
                self.outcomes[level, "rejected"] += 1
                return True
            self._late[admission] = queue
            self._passing[queue] += 1
        self.prediction.join(now, admission, counts=not is_late)
        return False

    def _is_late(self, now: int, admission: Admission, wait_ns: int) -> bool:
        latest, factor = admission.latest_start_ns, self.factor
        if latest is None:
            return False
        if factor is None:
            errors = self._errors.get(admission.level)
            error = USUAL_ERROR if errors is None else errors.expected(wait_ns)
            if error > _LARGE:
                return False
            factor = 1 + error
        return now + wait_ns * factor > latest

    def _may_pass(self, level: str, queue: Queue) -> bool:
        """Return whether the late request that has just been counted waits nevertheless."""
        return not self.outcomes[level, "late"] % _PASSING and self._passing[queue] * _OF_QUEUE < queue.length

    def note_left(self, now: int, admission: Admission, *, is_seated: bool) -> None:
        """Note that a request doesn't wait any more."""
        self.prediction.leave(now, admission, is_seated=is_seated)
        level, latest = admission.level, admission.latest_start_ns
        queue = self._late.pop(admission, None)
        if queue is not None:
            self._passing[queue] -= 1
            if not self._passing[queue]:
                del self._passing[queue]
        is_missed = not is_seated and latest is not None and now >= latest
        if is_missed:
            self.outcomes[level, "missed"] += 1
        elif is_seated and queue is not None and latest is not None and now < latest:
            self.outcomes[level, "in-time"] += 1
        predicted, waited = admission.predicted_wait_ns, now - admission.arrived_at
        if predicted is None or not (is_seated or is_missed):
            return
        errors = self._errors.get(level)
        if errors is None:
            errors = self._errors[level] = WaitErrors()
        # A wait that was cut off would have been longer: nothing is wrong with one that was predicted so.
        errors.learn(predicted, waited if is_seated else max(waited, predicted))
        if is_seated and queue is None:
            self.predicted_ns[level] += predicted
            self.waited_ns[level] += waited

    def __repr__(self) -> str:
        return f"<LateArrivals {self._mode}: {dict(self.outcomes)}>"
