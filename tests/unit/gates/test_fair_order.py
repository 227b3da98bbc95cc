"""The order of parked requests: fair among flows, by arrival within a flow."""

from random import Random

import pytest

from apf_middleware.gates import fair_order
from apf_middleware.gates.fair_order import FairOrder
from tests.support.gate_world import GateWorld, Switch, level


@pytest.mark.parametrize("fifo", [True, False])
def test_in_a_fifo_queue_no_request_overtakes_a_parked_one_of_its_flow(fifo: bool) -> None:  # noqa: FBT001
    switch = Switch()
    world = GateWorld(switch.gate(), levels={"l": level(1, queues=1, fifo=fifo)})
    world.arrive("a0", "switch", flow="a", to="l")
    world.arrive("a1", flow="a", to="l")
    world.arrive("b0", flow="b", to="l")
    assert world.served == (["b0"] if fifo else ["a1"])
    switch.answer = True
    world.emit("well")
    while world.tickets:
        world.finish(world.served[-1])
    assert [name for name in world.served if name[0] == "a"] == (["a0", "a1"] if fifo else ["a1", "a0"])


def test_a_fifo_flow_goes_on_when_the_one_that_blocks_it_gives_up() -> None:
    world = GateWorld(Switch().gate(), levels={"l": level(1, queues=1, fifo=True)})
    world.arrive("a0", "switch", flow="a", to="l")
    world.arrive("a1", flow="a", to="l")
    assert world.give_up("a0") == ["a1"]


def fair(*items: tuple[str, str, int, int]) -> FairOrder[str]:
    """Return an order of items with their flow, cost and work, in this order of arrival."""
    order: FairOrder[str] = FairOrder()
    for number, (item, flow, cost, work) in enumerate(items):
        order.add(item, flow, number=number, cost=cost, work=work)
    order.check()
    return order


def drain(order: FairOrder[str], works: dict[str, tuple[str, int]], below: int = 100) -> list[str]:
    found = []
    while (item := order.first(below)) is not None:
        order.remove(item)
        order.charge(*works[item])
        order.check()
        found.append(item)
    return found


def test_flows_take_turns_and_keep_their_own_order() -> None:
    items = [("a1", "a", 1, 10), ("a2", "a", 1, 10), ("a3", "a", 1, 10), ("b1", "b", 1, 10)]

    assert drain(fair(*items), {item: (flow, work) for item, flow, _, work in items}) == ["a1", "b1", "a2", "a3"]


def test_items_that_cost_too_much_are_passed_and_come_first_when_they_fit() -> None:
    items = [("large", "a", 4, 10), ("small", "a", 1, 10), ("other", "b", 2, 10)]
    order = fair(*items)
    works = {item: (flow, work) for item, flow, _, work in items}

    assert order.first(100) == "large"
    assert order.first_of("a", 4) == "large"
    assert drain(order, works, below=4) == ["small", "other"]
    assert drain(order, works) == ["large"]
    assert len(order) == 0


def test_an_item_that_is_back_keeps_the_start_of_its_flow() -> None:
    order = fair(("a", "a", 1, 10), ("b", "b", 1, 10))
    order.remove("a")
    order.remove("b")
    order.charge("b", 10)
    order.add("b2", "b", number=3, cost=1, work=10)
    order.add("a", "a", number=0, cost=1, work=10, is_back=True)

    assert order.first(2) == "a"


def test_when_the_first_item_of_a_flow_leaves_the_next_may_have_an_earlier_turn() -> None:
    order = fair(("long", "a", 1, 100), ("short", "a", 1, 1), ("other", "b", 1, 50))
    assert order.first(2) == "other"
    order.remove("long")

    assert order.first(2) == "short"


def test_many_flows_that_leave_unserved_are_forgotten() -> None:
    order = fair(*((f"item{number}", f"flow{number}", 1, 10) for number in range(300)))
    for number in range(290):
        order.remove(f"item{number}")
    order.add("late", "late", number=300, cost=1, work=10)
    order.check()

    assert order.first(2) == "item290"


def test_a_flow_that_comes_later_waits_neither_for_all_of_a_larger_one_nor_the_other_way_round() -> None:
    order = fair(*((f"a{number}", "a", 1, 10) for number in range(6)))
    works = {f"{flow}{number}": (flow, 10) for flow in "ab" for number in range(6)}
    for number in range(3):
        order.remove(f"a{number}")
        order.charge("a", 10)
    for number in range(3):
        order.add(f"b{number}", "b", number=6 + number, cost=1, work=10)

    assert drain(order, works) == ["b0", "a3", "b1", "a4", "b2", "a5"]


def test_a_flow_saves_no_turns_while_nothing_of_it_waits() -> None:
    order = fair(("b0", "b", 1, 10), *((f"a{number}", "a", 1, 10) for number in range(4)))
    works = {f"{flow}{number}": (flow, 10) for flow in "ab" for number in range(9)}
    order.remove("b0")
    for number in range(2):
        order.remove(f"a{number}")
        order.charge("a", 10)
    for number in range(1, 4):
        order.add(f"b{number}", "b", number=9 + number, cost=1, work=10)

    assert drain(order, works) == ["b1", "a2", "b2", "a3", "b3"]


def test_an_arrival_behind_the_first_of_its_flow_does_not_change_the_turn_of_the_flow() -> None:
    order = fair(("a0", "a", 1, 20), ("b0", "b", 1, 15), ("a1", "a", 1, 1))

    assert order.first(2) == "b0"


def test_a_flow_of_which_an_item_waits_keeps_its_start_when_another_one_comes() -> None:
    order = fair(("a0", "a", 1, 10), ("a1", "a", 1, 10), ("b0", "b", 1, 25))
    for number in range(2):
        order.remove(f"a{number}")
        order.charge("a", 10)
    order.add("b1", "b", number=8, cost=1, work=10)
    order.add("a2", "a", number=9, cost=1, work=10)

    assert order.first(2) == "b0"


@pytest.mark.parametrize("seed", range(5))
def test_the_next_item_is_the_one_that_a_plain_search_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_order, "_MOST_STALE", 2)
    dice, order = Random(seed), FairOrder[int]()
    waiting: dict[int, tuple[str, int, int]] = {}

    def plainly_first(below: int) -> int | None:
        """Among the first items of each flow and cost, find the flow with the least finish, and its least number."""
        heads: dict[tuple[str, int], tuple[int, int]] = {}
        for number, (flow, cost, work) in sorted(waiting.items()):
            if cost < below:
                heads.setdefault((flow, cost), (number, order._flows[flow].start + work))
        if not heads:
            return None
        _, _, chosen = min((finish, number, flow) for (flow, _), (number, finish) in heads.items())
        return min(number for (flow, _), (number, _) in heads.items() if flow == chosen)

    for number in range(1000):
        if dice.random() < (0.8 if number % 200 < 100 else 0.2):
            flow, cost, work = waiting[number] = dice.choice("abc"), dice.choice((1, 2, 3)), dice.randint(1, 50)
            order.add(number, flow, number=number, cost=cost, work=work)
        elif waiting:
            served = plainly_first(4)
            assert served is not None
            gone = dice.choice((served, *list(waiting)[:6], *waiting))
            order.remove(gone)
            flow, _, work = waiting.pop(gone)
            if gone == served:
                order.charge(flow, work)
        below = dice.choice((2, 3, 4))
        assert order.first(below) == plainly_first(below)
        order.check()
