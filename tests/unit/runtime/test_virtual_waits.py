"""A wait in virtual time ends at its limit, or at the deadline before that."""

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.event_queue import EventQueue
from apf_middleware.runtime.virtual_waits import VirtualWaits

SECOND = 10**9
LEVEL = """
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 100, waitLimit: 10s, queuing: {queues: 4, handSize: 2, queueLengthLimit: 6}}
---
apiVersion: apf/v1
kind: Server
spec: {seats: 1, defaults: none}
"""


def waiting(latest_s: float | None) -> tuple[EventQueue, Admission, Admission]:
    """Return the events, and at the time 0 a request that runs and one that waits behind it."""
    events = EventQueue()
    controller = Controller(load_text(LEVEL), now=events.read)
    waits, destination = VirtualWaits(events), controller.destination(Classification("s", "crowd", "f", 7), Work())
    running, late = Admission(destination), Admission(destination)
    for one in (running, late):
        controller.arrive(0, one)
    assert late.is_waiting
    if latest_s is not None:
        late.set_deadline(99 * SECOND, round(latest_s * SECOND))
    waits.begin(late)
    return events, running, late


@pytest.mark.parametrize(
    ("latest_s", "ends_s", "reason"),
    [
        (None, 10, Reason.TIME_OUT),
        (11, 10, Reason.TIME_OUT),
        (10, 10, Reason.TIME_OUT),
        (9, 9, Reason.DEADLINE),
        (-1, 0, Reason.DEADLINE),
    ],
)
def test_when_and_why_a_wait_ends(latest_s: float | None, ends_s: int, reason: Reason) -> None:
    events, _, late = waiting(latest_s)
    events.run(ends_s * SECOND - 1)
    assert late.is_waiting or not ends_s
    events.run()

    assert (late.reason, late.rejected_at) == (reason, ends_s * SECOND)


@pytest.mark.parametrize("latest_s", [None, 9])
def test_a_request_that_has_its_seats_in_time_keeps_them(latest_s: float | None) -> None:
    events, running, late = waiting(latest_s)
    events.at(5 * SECOND, running.destination.controller.release, running)
    events.run()

    assert late.is_seated
    assert late.seated_at == 5 * SECOND
