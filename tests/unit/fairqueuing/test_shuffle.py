import math

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Dealer, collision_probabilities, entropy_bits, flow_hash
from tests.support.builds import raises_for_wrong_type


@pytest.mark.parametrize(
    ("schema", "distinguisher", "entropy", "hand_of_64"),
    [
        ("global-default", "alice", 17644606172554983095, (55, 56, 51, 36, 11, 5)),
        ("global-default", "bob", 7836649528101815225, (57, 63, 20, 32, 19, 41)),
        ("global-default", "", 5449774753716172163, (3, 51, 29, 58, 1, 33)),
        ("a", "b", 15254180239957406297, (25, 29, 35, 15, 17, 18)),
        ("ab", "", 15402352742931012758, (22, 32, 35, 60, 40, 38)),
    ],
)
def test_a_flow_always_gets_the_same_hand(
    schema: str, distinguisher: str, entropy: int, hand_of_64: tuple[int, ...]
) -> None:
    assert flow_hash(schema, distinguisher) == entropy
    assert Dealer(64, 6).deal(entropy) == hand_of_64


def test_schema_and_distinguisher_are_kept_apart() -> None:
    assert flow_hash("a", "b") != flow_hash("ab", "")


def test_an_ill_formed_distinguisher_is_hashed_all_the_same() -> None:
    assert flow_hash("schema", "\ud800") != flow_hash("schema", "\ud801")


@pytest.mark.parametrize(
    ("entropy", "deck", "hand", "cards"),
    [
        (0, 6, 6, (0, 1, 2, 3, 4, 5)),
        (719, 6, 6, (5, 4, 3, 2, 1, 0)),
        (2**64 - 1, 128, 6, (127, 1, 7, 56, 91, 6)),
        (2**64 - 1, 15, 15, (0, 2, 1, 3, 4, 5, 11, 8, 6, 7, 12, 10, 13, 9, 14)),
        (1001001001, 9, 3, (4, 6, 0)),
        (400900100100, 8, 3, (4, 7, 5)),
    ],
)
def test_hands_are_dealt_as_upstream_deals_them(entropy: int, deck: int, hand: int, cards: tuple[int, ...]) -> None:
    assert Dealer(deck, hand).deal(entropy) == cards


@pytest.mark.parametrize(("deck", "hand", "bits"), [(1024, 6, 60), (512, 8, 72), (32, 12, 60), (256, 7, 56), (1, 1, 0)])
def test_a_deal_consumes_the_entropy_of_its_cards(deck: int, hand: int, bits: int) -> None:
    assert entropy_bits(deck, hand) == bits


@pytest.mark.parametrize(("deck", "hand"), [(1024, 6), (32, 12), (64, 10), (512, 6), (256, 7), (128, 8), (15, 15)])
def test_sixty_bits_can_be_dealt(deck: int, hand: int) -> None:
    assert len(Dealer(deck, hand).deal(2**63)) == hand


@pytest.mark.parametrize(("deck", "hand"), [(512, 7), (256, 8), (128, 9), (64, 11), (10**7, 3)])
def test_more_than_sixty_bits_are_refused(deck: int, hand: int) -> None:
    with pytest.raises(InvalidValueError, match="bits of entropy and at most 60"):
        Dealer(deck, hand)


@pytest.mark.parametrize(
    ("deck", "hand", "rule"),
    [
        (0, 1, "deck size is 0, but it must be at least 1"),
        (-1, 1, "deck size is -1"),
        (1, 0, "hand size is 0, but it must be at least 1"),
        (1, 2, "a hand can't exceed the deck of 1"),
        (2**26 + 1, 1, "deck size is 67108865, but it must be at most 67108864"),
    ],
)
def test_a_deck_that_cannot_be_dealt_from_is_refused(deck: int, hand: int, rule: str) -> None:
    with pytest.raises(InvalidValueError, match=rule):
        Dealer(deck, hand)


def test_the_size_of_a_deck_is_an_integer() -> None:
    with raises_for_wrong_type(r"deck size is 8\.0, but it must be an integer"):
        Dealer(8.0, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("entropy", [-1, 2**64])
def test_entropy_is_64_bits(entropy: int) -> None:
    with pytest.raises(InvalidValueError, match="entropy is"):
        Dealer(8, 3).deal(entropy)


@pytest.mark.parametrize("entropy", [1.0, None])
def test_entropy_is_an_integer(entropy: int) -> None:
    with raises_for_wrong_type("entropy is"):
        Dealer(8, 3).deal(entropy)


@pytest.mark.parametrize(
    ("deck", "hand", "one", "four", "sixteen"),
    [
        (64, 6, "1.33e-08", "7.47e-04", "2.42e-01"),
        (128, 6, "1.84e-10", "1.61e-05", "2.21e-02"),
        (16, 4, "5.49e-04", "1.94e-01", "9.60e-01"),
        (64, 8, "2.26e-10", "4.89e-04", "3.59e-01"),
        (128, 8, "6.99e-13", "3.41e-06", "2.75e-02"),
        (256, 7, "7.6e-14", "6.7e-08", "6.7e-04"),
        (512, 6, "4.1e-14", "5.0e-09", "2.3e-05"),
        (32, 12, "4.4e-09", "1.14e-01", "9.935e-01"),
    ],
)
def test_heavy_flows_cover_a_light_one_as_often_as_the_kep_says(
    deck: int, hand: int, one: str, four: str, sixteen: str
) -> None:
    covered = collision_probabilities(deck, hand, elephants=16)

    for elephants, expected in ((1, one), (4, four), (16, sixteen)):
        digits = len(expected.split("e")[0].replace(".", "")) - 1
        assert f"{covered[elephants - 1]:.{digits}e}" == expected


def test_a_whole_deck_in_hand_is_always_covered() -> None:
    assert collision_probabilities(4, 4, elephants=3) == [1, 1, 1]


def test_collisions_only_grow_with_the_heavy_flows() -> None:
    covered = collision_probabilities(64, 6, elephants=64)

    assert covered == sorted(covered)
    assert math.isclose(covered[0], 1 / math.comb(64, 6))
    assert covered[-1] < 1


def test_collisions_need_a_heavy_flow() -> None:
    with pytest.raises(InvalidValueError, match="elephants is 0"):
        collision_probabilities(64, 6, elephants=0)
