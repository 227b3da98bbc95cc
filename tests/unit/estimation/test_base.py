"""The cut to what a level allows one request, and what estimates depend on."""

import pytest

from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.config import load
from apf_middleware.config.build import derive_seat_caps
from apf_middleware.estimation import ANYTHING, STEADY, Constant, Dependence, cut, dependence_of, seat_cap
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work
from apf_middleware.fairqueuing.sharing.limits import LevelShares, limits_from_shares

SHARES = {
    "leader-election": 10,
    "node-high": 40,
    "system": 30,
    "workload-high": 40,
    "workload-low": 100,
    "global-default": 20,
    "catch-all": 5,
    "exempt": 0,
}
HANDS = {"leader-election": 4, "node-high": 6, "system": 6, "workload-high": 6, "workload-low": 6, "global-default": 6}


@pytest.mark.parametrize(("seats", "caps"), [(600, [4, 15, 12, 15, 37, 8]), (1000, [7, 25, 19, 25, 62, 13])])
def test_the_caps_of_kubernetes_own_levels_are_those_of_kubernetes(seats: int, caps: list[int]) -> None:
    limits = limits_from_shares(seats, {name: LevelShares(shares) for name, shares in SHARES.items()})

    assert [seat_cap(limits[name].nominal, hand) for name, hand in HANDS.items()] == caps


def test_a_level_without_queues_has_no_cap() -> None:
    caps = derive_seat_caps(load(defaults="kubernetes"))

    assert caps["exempt"] == caps["catch-all"] == 0
    assert caps["workload-low"] > 0


@pytest.mark.parametrize(
    ("nominal", "hand", "cap"),
    [(0, 1, 1), (1, 1, 1), (7, 1, 2), (20, 1, 3), (20, 6, 3), (21, 1, 4), (100, 8, 12), (100, 6, 15), (100, 60, 1)],
)
def test_a_cap_is_15_percent_of_the_seats_or_a_share_of_a_hand(nominal: int, hand: int, cap: int) -> None:
    assert seat_cap(nominal, hand) == cap


@pytest.mark.parametrize(("nominal", "hand", "name"), [(-1, 1, "nominal"), (5, 0, "hand_size"), (1.5, 1, "nominal")])
def test_a_cap_needs_seats_and_a_hand(nominal: int, hand: int, name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name} is "):
        seat_cap(nominal, hand)


def test_narrow_work_and_work_without_a_cap_are_left_as_they_are() -> None:
    work = Work(3, 5, 1_000_000)

    assert cut(work, 5) is work
    assert cut(work, 0) is work


def test_a_cut_takes_seats_away_while_a_request_runs() -> None:
    assert cut(Work(10), 4) == Work(4)


def test_a_cut_leaves_the_final_work_what_it_is() -> None:
    work = Work(2, 20, 5_000_000)

    assert cut(work, 5) == Work(2, 5, 20_000_000)
    assert cut(work, 5).final_work == work.final_work
    assert cut(work, 1) == Work(1, 1, 100_000_000)


def test_final_seats_within_the_cap_linger_no_longer_when_others_are_cut() -> None:
    assert cut(Work(20, 3, 5_000_000), 7) == Work(7, 3, 5_000_000)


def test_a_cap_is_not_negative() -> None:
    with pytest.raises(InvalidValueError, match="cap is -1"):
        cut(Work(2), -1)


def test_an_estimator_without_a_declared_dependence_may_depend_on_anything() -> None:
    def plain(digest: RequestDigest, classification: Classification) -> Work:
        return Work()

    assert dependence_of(plain) == ANYTHING
    assert not ANYTHING.is_steady
    assert dependence_of(Constant(Work())) == STEADY


def test_an_invalid_dependence_is_refused() -> None:
    class Odd:
        dependence = "none"

    with pytest.raises(InvalidValueError, match="it must be a Dependence"):
        dependence_of(Odd())


def test_dependences_add_up() -> None:
    both = Dependence(frozenset({"a"})) | Dependence(frozenset({"b"}), query=True)

    assert both == Dependence(frozenset({"a", "b"}), query=True)
    assert both.is_steady
    assert not (both | Dependence(changing=True)).is_steady
    assert (both | Dependence(anything=True)).anything
