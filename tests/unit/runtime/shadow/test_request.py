"""Requests as the second configuration sees them."""

import pytest

from apf_middleware.classification import ANONYMOUS
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.runtime import Admission, Destination
from apf_middleware.runtime.shadow.durations import MeanDuration
from apf_middleware.runtime.shadow.place import ShadowPlace
from apf_middleware.runtime.shadow.request import ShadowRequest
from apf_middleware.runtime.shadow.tallies import AT_ONCE, PASSED, REJECTED, WAITED, SchemaTally
from tests.support.level_world import PLACE, LevelWorld


class Follower:
    """Records what it is told, and fails if asked to."""

    def __init__(self) -> None:
        self.is_over = False
        self.told: list[object] = []
        self.error: Exception | None = None

    def note_seated(self, request: ShadowRequest, decision: int) -> None:
        self._tell("seated", decision, request.arrived_at)

    def note_ended(self, request: ShadowRequest, lasted_ns: int) -> None:
        request.lasted_ns = lasted_ns
        self._tell("ended", lasted_ns)

    def note_unserved(self, _request: ShadowRequest, decision: int, hung_up_at: int | None = None) -> None:
        self._tell("unserved", decision, hung_up_at)

    def note_woken(self, _request: ShadowRequest) -> None:
        self._tell("woken")

    def fail(self, error: Exception) -> None:
        self.is_over = True
        self.told.append(error)

    def _tell(self, *what: object) -> None:
        if self.error is not None:
            raise self.error
        self.told.append(what)


def destination() -> Destination:
    """Return the destination of a server that has no other requests."""
    return Destination(LevelWorld().controller, PLACE, Work())


def request(follower: Follower) -> ShadowRequest:
    place = ShadowPlace(destination(), SchemaTally("crowd", "all"), ANONYMOUS, MeanDuration())
    return ShadowRequest(follower, place, 5)


def admission(*, arrived: int, seated: int | None = None) -> Admission:
    found = Admission(destination())
    found.destination.controller.arrive(arrived, found)
    if seated is not None:
        found.seated_at = seated
    return found


def test_the_times_are_those_of_the_real_server() -> None:
    follower = Follower()
    real = admission(arrived=3, seated=3)
    one = request(follower)
    one.note_seated(real)
    real.released_at = 10
    one.note_released(real)
    one.note_released(real)
    one.wake()

    assert follower.told == [("seated", AT_ONCE, 3), ("ended", 7), ("woken",)]
    assert repr(one).startswith("<ShadowRequest of ")


def test_a_wait_and_a_request_that_passes_are_told_apart() -> None:
    follower = Follower()
    request(follower).note_seated(admission(arrived=3, seated=9))
    passing = Admission(destination())
    passing.arrived_at = passing.seated_at = 4
    request(follower).note_seated(passing)
    request(follower).note_passed(passing)

    assert follower.told == [("seated", WAITED, 3), ("seated", PASSED, 4), ("unserved", PASSED, None)]


def test_a_rejection_tells_about_hang_ups_and_refusals() -> None:
    follower, world = Follower(), LevelWorld()
    destination = Destination(world.controller, PLACE, Work())
    for _ in range(world.controller.seats):
        world.controller.arrive(5, Admission(destination))
    hung_up = Admission(destination)
    world.controller.arrive(5, hung_up)
    assert hung_up.is_waiting
    world.time = 20
    world.controller.hang_up(hung_up)
    request(follower).note_rejected(hung_up)

    assert follower.told == [("unserved", REJECTED, 20)]


@pytest.mark.parametrize("reason", [Reason.SLOW_BODY, Reason.CANCELLED])
def test_a_request_that_was_refused_before_it_asked_for_seats_asks_for_none(reason: Reason) -> None:
    follower, refused = Follower(), Admission(destination())
    refused.destination.controller.refuse(20, refused, reason)
    one = request(follower)
    one.note_rejected(refused)

    assert follower.told == [("unserved", REJECTED, None)]
    assert one.refused is reason


@pytest.mark.parametrize("end", ["note_rejected", "note_passed"])
def test_what_becomes_of_an_upload_that_asks_for_seats_again_changes_nothing(end: str) -> None:
    follower, real = Follower(), admission(arrived=3, seated=3)
    one = request(follower)
    one.note_seated(real)
    one.real = AT_ONCE  # as the server notes
    real.released_at = 9
    one.note_released(real)
    real.renew()
    real.destination.controller.refuse(20, real, Reason.SLOW_BODY)
    getattr(one, end)(real)

    assert follower.told == [("seated", AT_ONCE, 3), ("ended", 6)]
    assert one.refused is None


def test_errors_of_the_follower_stay_there() -> None:
    for call in ("note_seated", "note_released", "note_rejected"):
        follower = Follower()
        follower.error = LookupError("defect")
        one, real = request(follower), admission(arrived=3, seated=3)
        real.released_at = 9
        getattr(one, call)(real)
        assert follower.told == [follower.error]

        getattr(one, call)(real)
        assert follower.told == [follower.error], "it is over"
