"""Predict how long a request will wait that has just joined its queue.

The wait is the work ahead in the request's own queue, divided by the seats that this queue gets (see `LevelDrains`),
and the time until the level's next seats come free. What waits in other queues matters only through the share of the
own one: a flow with nothing ahead isn't kept waiting by the backlog of another flow. But it is by the flows that have
nothing ahead either and came before: each of them takes a seat first.

The work of a request is its width times the learned duration of its route. A prediction takes constant time, and so
does each request that joins or leaves a queue. Nothing is predicted before a duration is known.
"""

from typing import TYPE_CHECKING, Final

from apf_middleware.estimation import LearnedCosts
from apf_middleware.fairqueuing.level_drains import LevelDrains
from apf_middleware.runtime.admission import Admission

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.ticket import Queue
    from apf_middleware.runtime.level import LevelRuntime

__all__ = ["WaitPrediction"]

_GROWN: Final = 2
"""A duration that has grown by more while a request waited has changed: requests are longer, and service isn't slower.

Smaller differences are chance, which averages out if the work that is served is what was ahead.
"""


class WaitPrediction:
    """Predict waits from the ``costs`` of routes and from all requests that begin and end to wait."""

    __slots__ = ("_costs", "_joined", "_levels")

    def __init__(self, costs: LearnedCosts) -> None:
        self._costs = costs
        self._levels: dict[LevelRuntime, LevelDrains] = {}
        self._joined: dict[Admission, tuple[Queue, int, int]] = {}  # the work, and what of it is ahead of others

    def predict(self, now: int, admission: Admission) -> int | None:
        """Return the wait of a request that is the newest of its queue and hasn't joined; None if it is unknown."""
        runtime, queue = admission.destination.runtime, admission.queue
        level = self._levels.get(runtime)
        typical_ns = self._duration_ns(admission) if level is None or not level.typical_ns else level.typical_ns
        if queue is None or not typical_ns:
            return None
        seats = _seats(runtime)
        if not seats:
            return None
        drain = None if level is None else level.drains.get(queue)
        if level is None or drain is None or not drain.ahead_ns:
            first = 0 if level is None else level.light - (drain is not None)
            return typical_ns * (admission.width + first) // seats or 1
        served = level.seats(now, drain, seats, queue.seats_in_use)
        return int(drain.ahead_ns / served + typical_ns * admission.width / seats) or 1 if served > 0 else None

    def join(self, now: int, admission: Admission, *, counts: bool) -> None:
        """Note that a request begins to wait; unless it ``counts``, it isn't ahead of later ones."""
        queue = admission.queue
        assert queue is not None, "a waiting request has a queue"
        runtime = admission.destination.runtime
        level = self._levels.get(runtime)
        if level is None:
            level = self._levels[runtime] = LevelDrains(now)
        if runtime.shared.is_held:
            level.skip(now)
        duration_ns = self._duration_ns(admission)
        if duration_ns:
            self._learn(now, runtime, level, duration_ns)
        work = admission.width * (duration_ns or level.typical_ns)
        ahead = work if counts else 0
        level.join(now, queue, ahead, _seats(runtime))
        self._joined[admission] = queue, work, ahead

    def leave(self, now: int, admission: Admission, *, is_seated: bool) -> None:
        """Note that a request doesn't wait any more; ignore one that never joined."""
        if admission not in self._joined:
            return
        runtime = admission.destination.runtime
        level, duration_ns = self._levels[runtime], self._duration_ns(admission)
        if duration_ns and not level.typical_ns:
            self._learn(now, runtime, level, duration_ns)
        queue, work, ahead = self._joined.pop(admission)
        if runtime.shared.is_held:
            level.skip(now)
        if is_seated:
            known = admission.width * duration_ns
            level.serve(now, queue, known if known > _GROWN * work else work)
        level.leave(now, queue, ahead)
        if not level.drains and (runtime.shared.is_over or runtime.shared.is_draining):
            del self._levels[runtime]  # a level that has been deleted, or removed by a reload

    def _learn(self, now: int, runtime: "LevelRuntime", level: LevelDrains, duration_ns: int) -> None:
        """Learn from a duration; the first one of a level is that of all requests that wait there already."""
        if level.typical_ns:
            level.learn(duration_ns)
            return
        level.skip(now)  # how fast the level served requests until now can't be known
        level.learn(duration_ns)
        for one, (queue, _, _) in self._joined.items():
            if one.destination.runtime is runtime:
                work = one.width * duration_ns
                self._joined[one] = queue, work, work  # none is late, because none had a predicted wait
                level.weigh(now, queue, work, _seats(runtime))

    def forget_removed(self) -> None:
        """Forget the levels that a reload has removed, unless requests still wait there."""
        for runtime in [one for one, level in self._levels.items() if one.shared.is_draining and not level.drains]:
            del self._levels[runtime]

    def _duration_ns(self, admission: Admission) -> int:
        known = self._costs.expect(admission.destination.route)
        return 0 if known is None else int(known.duration_ns)

    def __repr__(self) -> str:
        return f"<WaitPrediction: {len(self._joined)} requests wait, {len(self._levels)} levels>"


def _seats(runtime: "LevelRuntime") -> int:
    """Return the seats that a level has now, or may have at any time."""
    return max(runtime.shared.queueset.seats_in_use, runtime.shared.limits.min)
