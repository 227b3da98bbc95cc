"""How requests end at their gates, and what a gate must forget of each of them then."""

from collections.abc import Callable

import pytest

from apf_middleware.fairqueuing import Reason
from apf_middleware.gates import Condition, Hold, Reject, Stage, Terms
from tests.unit.gates.gateworld import SECOND
from tests.unit.gates.remoteworld import BYPASSES, RemoteWorld


def first_to_wait(world: RemoteWorld, beside: int = 2) -> None:
    """Let ``first`` be told to wait, others join it, and be asked again."""
    world.come("first")
    world.answer("first", Hold())
    for number in range(beside):
        world.come(f"beside {number}")
    world.emit("remote")
    assert world.slot("remote").first is world.acquisition("first")
    assert world.acquisition("first").stage is Stage.CHECKING


def cancelled(world: RemoteWorld) -> None:
    world.give_up("first", Reason.CANCELLED)


def timed_out(world: RemoteWorld) -> None:
    world.give_up("first", Reason.TIME_OUT)


def answered_too_late(world: RemoteWorld) -> None:
    world.give_up("first", Reason.TIME_OUT)
    world.answer("first", "lease")


def rejected_by_it(world: RemoteWorld) -> None:
    world.answer("first", Reject())


def raised(world: RemoteWorld) -> None:
    world.answer("first", RuntimeError("away"))


def told_a_time_that_is_too_late(world: RemoteWorld) -> None:
    world.answer("first", Hold(retry_at=world.now + 1000 * SECOND))


def admitted(world: RemoteWorld) -> None:
    assert world.answer("first", "lease") == ["first"]


def kicked_and_rejected(world: RemoteWorld) -> None:
    world.kick("first")
    world.answer("first", Reject())


ENDS = (
    cancelled,
    timed_out,
    answered_too_late,
    rejected_by_it,
    raised,
    told_a_time_that_is_too_late,
    admitted,
    kicked_and_rejected,
)


@pytest.mark.parametrize("on_error", ["admit", "reject", "backoff"])
@pytest.mark.parametrize("end", ENDS)
def test_a_gate_goes_on_after_each_way_in_which_the_first_to_wait_can_end(
    end: Callable[[RemoteWorld], None], on_error: str
) -> None:
    """It was kept as the one that others may pass only so often, though it was gone: then nobody was asked any more."""
    world = RemoteWorld(on_error=on_error)
    first_to_wait(world)
    end(world)
    for number in range(10 * BYPASSES):
        world.come(f"later {number}")
    world.serve_all()

    assert {f"later {number}" for number in range(10 * BYPASSES)} <= {*world.served}
    assert not world.scheduler.slots.of(world.gate("remote"))
    assert world.gate("remote").parked == 0


def test_a_gate_goes_on_after_another_gate_has_rejected_the_first_to_wait() -> None:
    world = RemoteWorld(Condition("db", lambda _: Reject(), Terms()))
    world.come("first", "remote", "db")
    world.answer("first", Hold())
    world.come("beside")
    world.emit("remote")
    world.answer("first", "lease")
    assert world.refused == ["first"]
    for number in range(10 * BYPASSES):
        world.come(f"later {number}")
    world.serve_all()

    assert len(world.served) == 10 * BYPASSES + 1


def test_the_wait_of_one_that_an_asynchronous_gate_rejects_is_observed() -> None:
    world = RemoteWorld()
    first_to_wait(world, beside=0)
    world.now += SECOND
    world.answer("first", Reject())

    tally = world.gate("remote").counters
    assert tally.waits.total == SECOND
    assert tally.rejected == 1


@pytest.mark.parametrize("given", [Hold(), Reject(), "lease"])
def test_a_request_may_pass_when_its_gate_is_removed_while_it_is_asked(given: object) -> None:
    world = RemoteWorld()
    world.come("asked")
    world.scheduler.retire(world.now, "remote")
    assert world.answer("asked", given) == ["asked"]
    world.finish("asked")
    assert not list(world.scheduler)
