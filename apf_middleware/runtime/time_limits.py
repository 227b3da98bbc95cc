"""The limit of a request's time, and how much of it the wait may take.

A request that gets its seats just before its deadline is answered too late, and its work is wasted. In a full queue
that happens to all requests: those that would still be in time wait behind others. So a wait ends earlier than the
deadline, by the duration that few requests of its route exceed. It may always take half of the time that is left when
it begins, so that a wrong estimate does little harm, and a request that needn't wait is served in any case.
"""

from typing import Final

from apf_middleware.estimation.learned import LearnedCosts
from apf_middleware.runtime.admission import Admission

__all__ = ["LEAST_NS", "limit_time"]

LEAST_NS: Final = 500_000
"""The least time in which an answer can be expected: about that is needed to look at a request, to begin and to answer.

With less, chance would decide whether a request is in time, and those that aren't would be held against the server.
"""


def limit_time(admission: Admission, now: int, left: int, costs: LearnedCosts) -> bool:
    """Set the deadline of a request that asks for seats with ``left`` nanoseconds; ``costs`` are by route.

    Return False if that is less than `LEAST_NS`, and the level isn't exempt.
    """
    known = costs.expect(admission.destination.route)
    reserve = 0 if known is None else min(known.long_ns, max(0, left) // 2)
    admission.set_deadline(now + left, now + left - reserve)
    return left >= LEAST_NS or admission.destination.runtime.shared.exempt
