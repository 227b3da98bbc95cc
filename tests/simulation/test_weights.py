"""Levels that are all backlogged are served in proportion to their shares, over any seats and weights.

The oracle is progressive filling: seats are poured out in small drops, one to each level for each unit of its weight,
until a level has its max or the seats are gone; mins are poured first. It shares nothing with the code.
"""

import random
from collections.abc import Mapping
from fractions import Fraction

import pytest

from apf_middleware.config import load_text
from apf_middleware.config.build import derive_limits
from apf_middleware.fairqueuing import Lending, LevelLimits, LevelShares, QueueSetSettings, Work
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from apf_middleware.runtime.registry import share_seats
from tests.support.examples import seeds
from tests.support.sharing_world import MS, SECOND, SERVICES, SharingWorld

DROP = Fraction(1, 400)


def poured(
    seats: int, weights: Mapping[str, int], mins: Mapping[str, int], maxes: Mapping[str, int]
) -> dict[str, float]:
    """How many seats each should have on average."""
    height, level = Fraction(0), dict.fromkeys(weights, Fraction(0))
    while True:
        height += DROP
        level = {
            name: min(max(Fraction(mins.get(name, 0)), height * weight), Fraction(maxes.get(name, seats)))
            for name, weight in weights.items()
        }
        if sum(level.values()) >= seats or height > seats:
            return {name: float(amount) for name, amount in level.items()}


def sharing_world(text: str, service: str, seed: int) -> SharingWorld:
    configuration = load_text(text)
    sharing = share_seats(configuration, derive_limits(configuration), 0)
    return SharingWorld(sharing, SERVICES[service], seed)


def queues(seats: int, weights: Mapping[str, int], mins: Mapping[str, int], maxes: Mapping[str, int]) -> str:
    """Return a configuration in which the catch-all is promised nothing, so that the queues have all seats."""
    documents = [f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}, defaults: none}}\n"]
    for name, weight in weights.items():
        bounds = "".join(f", guarantee: {mins[name]}" if name in mins else "")
        bounds += f", capability: {maxes[name]}" if name in maxes else ""
        spec = f"{{weight: {weight}{bounds}, queuing: {{queues: 1, handSize: 1, queueLengthLimit: 1000}}}}"
        documents.append(f"apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\nspec: {spec}\n")
    return "---\n".join(documents)


def served(
    world: SharingWorld, names: Mapping[str, int], seats: int, seconds: int, work: Work | None = None
) -> Mapping[str, float]:
    for name in names:
        world.saturate(name, "flow", 3 * seats + 5, work or Work())
    world.run(2 * SECOND)
    world.average_seats()
    world.run((2 + seconds) * SECOND)
    return world.average_seats()


# The cases that were seen


@pytest.mark.parametrize(
    ("seats", "weights", "service"),
    [
        (12, (1, 3), "constant"),
        (16, (1, 3), "exponential"),
        (12, (1, 1, 6), "mostly short, seldom long"),
        (16, (1, 1, 6), "constant"),
        (15, (1, 1, 6), "exponential"),
        (4, (1, 3), "mostly short, seldom long"),
        (4, (1, 3), "constant"),
        (3, (1, 1, 6), "exponential"),
        (1, (1, 3), "constant"),
        (1, (1, 3), "mostly short, seldom long"),
    ],
)
def test_service_is_in_proportion_to_the_weights(seats: int, weights: tuple[int, ...], service: str) -> None:
    shares = {f"queue-{place}": 100 * weight for place, weight in enumerate(weights)}
    world = sharing_world(queues(seats, shares, {}, {}), service, 1)
    averages = served(world, shares, seats, 6 if seats > 4 else 15)
    used = sum(averages[name] for name in shares)

    assert used >= seats - 1.02, "one seat at most is kept for the catch-all"
    for name, weight in shares.items():
        assert averages[name] / used == pytest.approx(weight / sum(shares.values()), rel=0.02), name


def test_seats_in_use_stay_within_one_seat_of_the_fair_share() -> None:
    """Shares are kept at each moment, not by turns of everything for each."""
    shares = {"a": 100, "b": 300}
    world = sharing_world(queues(13, shares, {}, {}), "exponential", 3)
    served(world, shares, 13, 1)
    seen = set()
    for _ in range(400):
        world.run(world.now + 7 * MS)
        seen.add(world.sharing.levels["a"].queueset.seats_in_use)

    assert seen <= {3, 4}


# Any weights


@pytest.mark.parametrize("seed", seeds(5))
def test_random_weights_agree_with_progressive_filling(seed: int) -> None:
    chance = random.Random(seed)
    seats = chance.choice([2, 3, 4, 5, 7, 12, 16, 24])
    names = "abcd"[: chance.randint(2, 4)]
    weights = {name: chance.randint(1, 9) for name in names}
    mins: dict[str, int] = {}
    maxes: dict[str, int] = {}
    if chance.random() < 0.5:
        mins = {names[0]: chance.randint(0, seats // 2)}
        maxes = {names[1]: chance.randint(1, seats)}
    expected = poured(seats, weights, mins, maxes)
    wanted = {
        name: (
            QueueSetSettings(seats, 1, 1, 1000),
            LevelLimits(
                max(mins.get(name, 0), min(seats, maxes.get(name, seats))), mins.get(name, 0), maxes.get(name, seats)
            ),
        )
        for name in names
    }
    hierarchy = Hierarchy(shares={name: LevelShares(weight) for name, weight in weights.items()})
    world = SharingWorld(Lending(seats, wanted, hierarchy=hierarchy), SERVICES[chance.choice(sorted(SERVICES))], seed)
    averages = served(world, weights, seats, 12)

    for name in names:
        assert averages[name] == pytest.approx(expected[name], rel=0.02, abs=0.02), f"{name} of {weights}"


def test_an_idle_level_gets_no_compensation() -> None:
    """Nor does the other one pay for seats that nobody else wanted, however long it had them."""
    shares = {"a": 100, "b": 100}
    world = sharing_world(queues(4, shares, {}, {}), "constant", 1)
    world.saturate("a", "flow", 40)
    world.run(100 * SECOND)
    world.average_seats()
    world.saturate("b", "flow", 40)
    world.run(100 * SECOND + 2 * SECOND)
    averages = world.average_seats()

    assert averages["a"] / sum(averages.values()) == pytest.approx(0.5, abs=0.02)


def test_children_divide_their_parents_share_including_that_of_an_idle_sibling() -> None:
    text = queues(13, {"web": 300, "tenants": 300}, {}, {})
    for name, weight in (("free", 1), ("paid", 2), ("idle", 3)):
        spec = f"{{weight: {weight}, parent: tenants, queuing: {{queues: 1, handSize: 1, queueLengthLimit: 1000}}}}"
        text += f"---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    text = text.replace("weight: 300,", "weight: 300, lendablePercent: 100,").replace(
        "weight: 3,", "weight: 3, guarantee: 0,"
    )
    world = sharing_world(text, "exponential", 1)
    averages = served(world, {"web": 1, "free": 1, "paid": 2}, 13, 8)
    half = averages["web"]

    assert half == pytest.approx(sum(averages.values()) / 2, rel=0.02)
    assert averages["paid"] == pytest.approx(half * 2 / 3, rel=0.02)
