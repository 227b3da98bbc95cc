"""The requests that run now, and the heaviest flows, for the admin; and the events of requests that are observed.

Fairness hides heavy flows, because none gets more than its share. So two amounts are counted for each flow, the work of
its served requests and the number of its rejected ones. The queues don't keep the requests that run, so these are
recorded here.
"""

from typing import TYPE_CHECKING

from apf_middleware.runtime.top_flows import TopFlows

if TYPE_CHECKING:
    from apf_middleware.runtime.admission import Admission
    from apf_middleware.runtime.top_flows import FlowKey

__all__ = ["RunningRequests"]


class RunningRequests:
    """Record the ``admissions`` that run, and sum up ``work`` (in seat-nanoseconds) and ``rejections`` by flow.

    If they aren't ``shown``, because there is no admin, requests are only observed.
    """

    __slots__ = ("admissions", "rejections", "shown", "work")

    def __init__(self, now: int) -> None:
        self.shown: bool = True
        self.admissions: set[Admission] = set()
        self.work: TopFlows[FlowKey] = TopFlows(now)
        self.rejections: TopFlows[FlowKey] = TopFlows(now)

    def note_seated(self, admission: "Admission") -> None:
        """Record that ``admission`` has been given its seats."""
        if self.shown:
            self.admissions.add(admission)
        for one in getattr(admission, "observations", ()):
            one.note_seated(admission)

    def note_released(self, admission: "Admission", lasted: int) -> None:
        """Record that ``admission`` has ended after ``lasted`` nanoseconds."""
        if self.shown:
            # it isn't there if recording began while it ran
            self.admissions.discard(admission)
            place = admission.destination.classification
            self.work.add((place.level, place.schema, place.flow), lasted * admission.width)
        for one in getattr(admission, "observations", ()):
            one.note_released(admission)

    def note_rejected(self, admission: "Admission") -> None:
        """Record that ``admission`` has been rejected."""
        if self.shown:
            place = admission.destination.classification
            self.rejections.add((place.level, place.schema, place.flow), 1)
        for one in getattr(admission, "observations", ()):
            one.note_rejected(admission)

    def age(self, now: int) -> None:
        """Let older amounts count less; this must be called from time to time."""
        self.work.age(now)
        self.rejections.age(now)

    def __repr__(self) -> str:
        return f"<RunningRequests: {len(self.admissions)} running, work {self.work!r}, rejections {self.rejections!r}>"
