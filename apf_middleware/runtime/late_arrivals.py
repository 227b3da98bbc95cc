"""Find the requests that can't be in time when they arrive, and reject them if the configuration says so.

A request that is rejected on arrival can still go elsewhere, while one that waits until its deadline has wasted its
client's time. But a wrong prediction rejects a request that could be served. So a request is never judged if a seat is
free for it or if nothing waits ahead in its own queue, and one in a hundred of those that would be rejected waits
nevertheless: the error can be seen, and a wrong estimate can't persist.

Requests that are expected to be late don't count as ahead of others. Where they are only counted (``shadow``), as many
requests are counted as would be rejected, although all of them wait. Which ones are late differs then: in a full queue,
each request that gets seats takes them from another one. So compare numbers, not single requests.
"""

from collections import Counter
from typing import Final

from apf_middleware.config.deadlines import PredictionMode
from apf_middleware.estimation import LearnedCosts
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.wait_prediction import WaitPrediction

__all__ = ["OUTCOMES", "LateArrivals"]

OUTCOMES: Final = ("late", "rejected", "missed", "in-time")
"""Requests that were expected to be late; those of them that were rejected; and of all requests with a deadline that
waited, those whose wait ended unserved, and those that were expected to be late and got their seats in time."""

_PROBES: Final = 100
_CAUTION: Final = 1.05  # found with ``benchmarks.predict``: less lets more requests wait in vain


class LateArrivals:
    """The requests that can't be in time; ``outcomes`` counts them by level and outcome (see `OUTCOMES`).

    ``predicted_ns`` and ``waited_ns`` are the sums of the predicted and the real waits of requests that got seats.
    """

    __slots__ = ("_late", "_mode", "outcomes", "predicted_ns", "prediction", "waited_ns")

    def __init__(self, mode: PredictionMode, costs: LearnedCosts) -> None:
        self._mode = mode
        self._late: dict[Admission, bool] = {}  # those that wait nevertheless
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
        latest, is_late = admission.latest_start_ns, False
        if wait_ns is not None:
            admission.predict_wait(wait_ns)
            is_late = latest is not None and queue.length > 1 and now + wait_ns * _CAUTION > latest
        if is_late:
            level = admission.level
            self.outcomes[level, "late"] += 1
            if self._mode == "on" and self.outcomes[level, "late"] % _PROBES:
                self.outcomes[level, "rejected"] += 1
                return True
            self._late[admission] = True
        self.prediction.join(now, admission, counts=not is_late)
        return False

    def note_left(self, now: int, admission: Admission, *, is_seated: bool) -> None:
        """Note that a request doesn't wait any more."""
        self.prediction.leave(now, admission, is_seated=is_seated)
        level, latest = admission.level, admission.latest_start_ns
        is_late = self._late.pop(admission, None) is not None
        if not is_seated:
            if latest is not None and now >= latest:
                self.outcomes[level, "missed"] += 1
            return
        if is_late and latest is not None and now < latest:
            self.outcomes[level, "in-time"] += 1
        predicted = admission.predicted_wait_ns
        if predicted is not None and not is_late:
            self.predicted_ns[level] += predicted
            self.waited_ns[level] += now - admission.arrived_at

    def __repr__(self) -> str:
        return f"<LateArrivals {self._mode}: {dict(self.outcomes)}>"
