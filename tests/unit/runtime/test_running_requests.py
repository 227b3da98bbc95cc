"""The requests that run now, and the heaviest flows."""

from apf_middleware.classification import Classification
from apf_middleware.config import load
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.running_requests import RunningRequests
from apf_middleware.runtime.top_flows import HALF_LIFE_NS, HeavyFlow


def test_running_requests_and_the_amounts_of_their_flows_are_recorded() -> None:
    controller = Controller(load(), now=lambda: 0)
    place = Classification("anonymous-clients", "anonymous", "10.0.0.0/24", 7)
    admission = Admission(controller.destination(place, Work(3)))
    running = RunningRequests(0)
    key = ("anonymous", "anonymous-clients", "10.0.0.0/24")

    running.note_seated(admission)
    assert running.admissions == {admission}
    running.note_released(admission, 50)
    running.note_rejected(admission)

    assert running.admissions == set()
    assert running.work.top(2) == [HeavyFlow(key, 150, 0)]
    assert running.rejections.top(2) == [HeavyFlow(key, 1, 0)]
    assert repr(running).startswith("<RunningRequests: 0 running, work <TopFlows: 1 of")

    running.age(HALF_LIFE_NS)
    assert running.work.top(2) == [HeavyFlow(key, 75, 0)]
    assert running.rejections.top(2) == []


def test_requests_that_end_while_nothing_is_recorded_are_not_kept() -> None:
    controller, running = Controller(load(), now=lambda: 0), RunningRequests(0)
    place = Classification("anonymous-clients", "anonymous", "10.0.0.0/24", 7)
    admission = Admission(controller.destination(place, Work(1)))
    controller.record(running)
    controller.arrive(0, admission)
    assert running.admissions == {admission}

    controller.record(None)
    controller.release(admission)
    controller.record(running)

    assert running.admissions == set()
