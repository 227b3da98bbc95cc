"""What an app may do with its admission."""

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.fairqueuing.sharing.grant import SeatGrant
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.runtime import Admission, NamedQueues
from tests.support.builds import raises_for_wrong_type
from tests.support.level_world import PLACE, LevelWorld


@pytest.mark.parametrize("aborted", [False, True])
def test_a_request_that_never_arrived_has_not_failed(aborted: bool) -> None:  # noqa: FBT001
    world = LevelWorld()
    admission = Admission(world.controller.destination(PLACE, Work()))
    admission.fail(aborted=aborted)
    served = world.arrive()
    world.release(served)

    status = NamedQueues(world.controller).status("crowd")
    assert (status.arrived, status.completed, status.failed, status.aborted) == (1, 1, 0, 0)


def test_the_weight_of_the_flow_is_a_number() -> None:
    world = LevelWorld()
    gold = Admission(world.controller.destination(PLACE._replace(weight=2.5), Work()))

    assert (gold.flow_weight, gold.weight) == (2.5, 5 * 2**15)
    assert Admission(world.controller.destination(PLACE, Work())).flow_weight == 1


def test_a_request_that_asks_for_seats_again_has_its_own_weight() -> None:
    world = LevelWorld()
    world.controller.restrict(SeatGrant(4), {PLACE.level: {PLACE.entropy: WEIGHT_ONE // 2}})
    world.arrive()
    admission = world.arrive()
    assert admission.weight == WEIGHT_ONE // 2, "other members of the fleet have requests of its flow, too"
    world.controller.restrict(SeatGrant(4), {})
    world.release(admission)

    admission.renew()

    assert admission.weight == WEIGHT_ONE


@pytest.mark.parametrize("ending", ["seated", "rejected", "refused"])
def test_the_time_waited_ends_with_the_wait(ending: str) -> None:
    world = LevelWorld()
    running = [world.arrive() for _ in range(4)]
    waits = world.arrive()
    world.time += 2 * 10**9
    assert waits.waited == 2

    if ending == "seated":
        world.release(running[0])
    elif ending == "rejected":
        world.controller.abandon(waits, Reason.TIME_OUT)
    else:
        waits = Admission(world.controller.destination(PLACE, Work()))
        world.controller.refuse(world.time, waits, Reason.SLOW_BODY)
    world.time += 10**9

    assert waits.waited == (0 if ending == "refused" else 2)
    if ending == "seated":
        world.release(waits)
        assert waits.waited == 2


@pytest.mark.parametrize("seats", [-1, 10_001, float("nan"), True])
def test_a_charge_is_a_sensible_number(seats: float) -> None:
    with pytest.raises(InvalidValueError, match=r"seats is .*, but it must be a number from 0 to 10000$"):
        LevelWorld().arrive().charge(seats)


def test_a_charge_is_a_number() -> None:
    with raises_for_wrong_type("seats is"):
        LevelWorld().arrive().charge("3")  # type: ignore[arg-type]
