"""The allocator of a fleet at Redis, and what it makes of a store that refuses its grants."""

from typing import Any

import pytest

from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.messages import FlowTable, LevelUsage, Report, Taken, write
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.fleet.redis_allocator import RedisAllocator
from apf_middleware.runtime.fleet.redis_link import Claim, Division, DivisionAnswer
from apf_middleware.runtime.fleet.timing import FleetTiming

pytestmark = pytest.mark.anyio

SECOND = 10**9


class Store:
    """A link that answers each division with the next of the ``answers``, and then that a later epoch has begun."""

    def __init__(self, *answers: DivisionAnswer) -> None:
        self.divisions: list[Division] = []
        self._answers = [*answers, DivisionAnswer(is_outdated=True)]

    async def take_reports(self, wait_s: float) -> list[bytes]:  # noqa: ARG002
        return [report("a", 30, 9), report("b", 1, 1)]

    async def exchange(self, division: Division, wait_s: float | None = None) -> DivisionAnswer:  # noqa: ARG002
        self.divisions.append(division)
        return self._answers.pop(0)

    def note_taken(self, taken: Taken) -> bool:
        return taken.round == 1

    async def resign(self, epoch: int) -> None: ...

    async def aclose(self) -> None: ...


def report(name: str, wanted: int, seats: int, *, number: int = 1) -> bytes:
    usage = LevelUsage(min(wanted, seats), 0, 1, FlowTable.of({ord(name): wanted} if wanted else {}))
    sequence = 0 if number == 1 else 1
    return write(Report(name, number, 1, sequence, seats, min(wanted, seats), levels={"web": usage}))


async def served(store: Any) -> RedisAllocator:  # noqa: ANN401 - any link
    def unused(*_: object) -> Any:  # noqa: ANN401
        raise AssertionError("it is no member")

    participant = Participant(
        "shop",
        FleetTiming(SECOND, 50 * SECOND),
        join=unused,
        leave=unused,
        budget=lambda: Budget(10, {"web": SeatDemand(1, 0)}),
        now=lambda: 0,
    )
    allocator = RedisAllocator(Claim(1, is_mine=True, expected=()), store, participant)
    await allocator.serve()
    await allocator.end()
    return allocator


@pytest.mark.parametrize("is_told", [False, True])
async def test_a_refusal_shows_that_the_standing_grant_has_come_into_force(is_told: bool) -> None:  # noqa: FBT001
    """Whether the store's message arrives or not; refused grants are sent again."""
    reports = [report("b", 0, 0, number=2), *([write(Taken(1))] if is_told else [])]
    wanted = report("c", 9, 0)
    store = Store(DivisionAnswer([wanted]), DivisionAnswer(reports, is_refused=True))
    pure = (await served(store)).allocator
    first, refused, again = store.divisions
    assert first.standing is not None
    assert (first.standing.member, first.standing.grant.seats) == ("a", 10)
    assert {"a", "c"} <= refused.grants.keys()
    assert refused.grants.keys() <= again.grants.keys()
    assert again.grants["a"].sequence > first.standing.grant.sequence
    assert pure.accounts["a"].debt.owed == 10
    assert pure.debt == 10
    assert again.grants["c"].seats == 0


async def test_a_division_that_is_not_refused_ends_the_former_standing_grant() -> None:
    store = Store(DivisionAnswer([report("b", 0, 0, number=2)]))
    pure = (await served(store)).allocator
    assert pure.standing == store.divisions[0].standing, "the second one is not known to be stored"
    assert pure.accounts["a"].debt.owed == 10, "it has got the seat by the second division"
    assert store.divisions[1].grants["a"].seats == 10
