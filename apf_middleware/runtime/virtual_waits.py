"""The ends of waits in virtual time, for servers that are simulated or only tried."""

from typing import Final

from apf_middleware.fairqueuing import Reason, TicketState
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.event_queue import EventQueue, FifoTimeouts

__all__ = ["VirtualWaits"]

_WAITING: Final = TicketState.WAITING


class VirtualWaits:
    """The waits for seats of one server; each ends at its limit, or at the request's deadline before that."""

    __slots__ = ("_events", "_timeouts")

    def __init__(self, events: EventQueue) -> None:
        self._events = events
        self._timeouts: dict[int, FifoTimeouts[Admission]] = {}  # by the limit, which may change at a level

    def begin(self, admission: Admission) -> None:
        """Schedule the end of a wait that begins now."""
        limit_ns, latest = admission.destination.runtime.wait_limit_ns, admission.latest_start_ns
        ends_at = self._events.now + limit_ns
        if latest is not None and latest < ends_at:
            self._events.at(latest, _end_late, admission)
            return
        timeouts = self._timeouts.get(limit_ns)
        if timeouts is None:
            timeouts = self._timeouts[limit_ns] = FifoTimeouts(self._events, _time_out, _is_not_waiting)
        timeouts.add(ends_at, admission)

    def __repr__(self) -> str:
        return f"<VirtualWaits with {len(self._timeouts)} limits>"


def _is_not_waiting(admission: Admission) -> bool:
    return admission.state is not _WAITING


def _end_late(admission: Admission) -> None:
    admission.destination.controller.abandon(admission, Reason.DEADLINE)


def _time_out(admission: Admission) -> None:
    admission.destination.controller.abandon(admission, Reason.TIME_OUT)
