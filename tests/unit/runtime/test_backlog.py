"""What waits in all levels together is bounded, and the heaviest flows are rejected first."""

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config import load_text
from apf_middleware.config.build import derive_limits
from apf_middleware.config.problems import ConfigurationError
from apf_middleware.fairqueuing import Reason, Work, flow_hash
from apf_middleware.runtime import Admission, Controller

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}, maxWaitingMemory: {memory}}}\n"


class Crowd:
    def __init__(self, memory: str, seats: int = 1) -> None:
        self.controller = Controller(load_text(SERVER.format(memory=memory, seats=seats)), now=lambda: 0)

    def arrive(self, level: str, flow: str, number: int = 1) -> list[Admission]:
        placed = Classification("any", level, flow, flow_hash("any", flow))
        found = [Admission(self.controller.destination(placed, Work())) for _ in range(number)]
        for admission in found:
            self.controller.arrive(0, admission)
        return found


def waiting(admissions: list[Admission]) -> int:
    return sum(one.is_waiting for one in admissions)


def test_what_waits_in_all_levels_together_is_bounded() -> None:
    crowd = Crowd("200KiB")
    came = [one for level in ("users", "anonymous") for flow in range(100) for one in crowd.arrive(level, f"{flow}", 5)]

    assert waiting(came) == crowd.controller.backlog.waiting <= 100
    assert {one.reason for one in came if not one.is_waiting and not one.is_seated} == {Reason.QUEUE_FULL}


def test_a_light_flow_finds_a_place_when_the_heavy_ones_do_not() -> None:
    crowd = Crowd("200KiB")
    for flow in range(8):
        crowd.arrive("users", f"heavy-{flow}", 50)
    [heavier] = crowd.arrive("users", "heavy-0")
    [light] = crowd.arrive("users", "light")

    assert heavier.reason is Reason.QUEUE_FULL
    assert light.is_waiting


def test_a_flood_of_one_level_leaves_half_of_the_room_to_the_others() -> None:
    crowd = Crowd("200KiB")
    flood = [one for flow in range(500) for one in crowd.arrive("anonymous", f"stranger-{flow}")]
    users = [one for flow in range(25) for one in crowd.arrive("users", f"user-{flow}")]

    assert waiting(flood) == 50
    assert waiting(users) == 25


def test_room_comes_back_when_requests_leave() -> None:
    crowd = Crowd("40KiB")
    first = crowd.arrive("users", "a", 9)
    assert waiting(first) == 2
    for one in first:
        if one.is_waiting:
            crowd.controller.abandon(one, Reason.CANCELLED)
    assert crowd.controller.backlog.waiting == 0
    second = crowd.arrive("users", "a", 9)
    assert waiting(second) == 2
    crowd.controller.release(first[0])
    assert crowd.controller.backlog.waiting == 1


def test_32_mib_are_16384_requests_and_upstream_has_no_such_bound() -> None:
    assert Controller(load_text("")).backlog.most == 16_384
    strict = "apiVersion: apf/v1\nkind: Server\nspec: {strictUpstream: true}\n"
    assert Controller(load_text(strict)).backlog.most > 10**9


@pytest.mark.parametrize("memory", ["0B", "much", "-1MiB"])
def test_an_invalid_amount_of_memory_is_refused(memory: str) -> None:
    with pytest.raises(ConfigurationError, match="maxWaitingMemory"):
        load_text(SERVER.format(seats=1, memory=memory))


@pytest.mark.parametrize("level", ["users", "anonymous"])
@pytest.mark.parametrize("seats", range(1, 33))
def test_any_class_of_callers_alone_may_use_all_of_few_seats(seats: int, level: str) -> None:
    crowd = Crowd("32MiB", seats)
    found = crowd.arrive(level, "only", seats + 1)

    assert sum(one.is_seated for one in found) == seats


@pytest.mark.parametrize("seats", [2, 4, 6, 16, 32])
def test_returning_users_have_the_next_seats_until_they_have_their_part(seats: int) -> None:
    crowd = Crowd("32MiB", seats)
    strangers = crowd.arrive("anonymous", "crawler", seats + 10)
    users = crowd.arrive("users", "user", seats)
    part = int(seats * 75 / 100)
    for one in strangers[:part]:
        crowd.controller.release(one)

    assert sum(one.is_seated for one in users) == part


def test_with_many_seats_each_class_keeps_half_of_its_own() -> None:
    found = derive_limits(load_text(SERVER.format(seats=100, memory="32MiB")))

    assert {name: found[name].min for name in ("users", "anonymous", "catch-all")} == {
        "users": 36,
        "anonymous": 12,
        "catch-all": 0,
    }
