"""Dealing, by its properties: hands are hands, all of them are dealt equally often, and a hand tells what dealt it."""

from collections import Counter
from math import ceil, factorial, log2, perm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.shuffle import Dealer
from tests.support.queueset_twin import deal

# All the combinations that are allowed, up to a deck of 512 cards.
SHAPES = [(deck, hand) for deck in range(1, 513) for hand in range(1, deck + 1) if log2(deck) * hand <= 60]
shapes = st.sampled_from(SHAPES)
entropies = st.integers(0, 2**64 - 1)


def value_that_deals(deck_size: int, hand: tuple[int, ...]) -> int:
    """Invert the dealing: each card was drawn by its place among those that the earlier ones had left."""
    value = 0
    for dealt in reversed(range(len(hand))):
        place = hand[dealt] - sum(earlier < hand[dealt] for earlier in hand[:dealt])
        value = value * (deck_size - dealt) + place
    return value


@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (10, 10), (12, 12), (128, 8), (256, 7), (512, 6)])
@given(entropy=entropies)
def test_a_hand_has_distinct_queues_of_the_deck(shape: tuple[int, int], entropy: int) -> None:
    deck_size, hand_size = shape
    hand = Dealer(deck_size, hand_size).deal(entropy)

    assert len(hand) == len(set(hand)) == hand_size
    assert set(hand) <= set(range(deck_size))


@given(shapes, entropies)
def test_queues_are_dealt_as_from_a_shuffled_deck(shape: tuple[int, int], entropy: int) -> None:
    assert list(Dealer(*shape).deal(entropy)) == deal(entropy, *shape)


@given(shapes, entropies)
def test_a_hand_determines_the_value_that_dealt_it(shape: tuple[int, int], entropy: int) -> None:
    hand = Dealer(*shape).deal(entropy)

    assert value_that_deals(shape[0], hand) == entropy % perm(*shape)


@pytest.mark.parametrize(("deck_size", "hand_size"), [(1, 1), (5, 5), (6, 1), (7, 6), (8, 4), (9, 3), (12, 3), (20, 4)])
def test_every_hand_is_dealt_equally_often(deck_size: int, hand_size: int) -> None:
    """Each value up to the falling factorial deals another hand; without regard to order, hand! of them are one."""
    dealer, values = Dealer(deck_size, hand_size), perm(deck_size, hand_size)
    hands = Counter(dealer.deal(value) for value in range(values))

    assert len(hands) == values
    unordered = Counter[frozenset[int]]()
    for hand, times in hands.items():
        unordered[frozenset(hand)] += times
    assert set(unordered.values()) == {factorial(hand_size)}


@pytest.mark.parametrize(("deck_size", "hand_size"), [(9, 3), (8, 4), (12, 3), (30, 2)])
def test_no_hand_is_favoured_by_more_than_one_round_of_values(deck_size: int, hand_size: int) -> None:
    """A power of two is no multiple of the number of hands, so some come once more: those of the last round."""
    dealer, values = Dealer(deck_size, hand_size), perm(deck_size, hand_size)
    drawn = 2 ** (ceil(log2(values)) + 4)
    unordered = Counter(frozenset(dealer.deal(value)) for value in range(drawn))

    assert len(unordered) == values // factorial(hand_size)
    assert min(unordered.values()) >= factorial(hand_size) * (drawn // values)
    assert max(unordered.values()) <= factorial(hand_size) * -(-drawn // values)


def test_hands_that_need_at_most_60_bits_can_be_dealt() -> None:
    allowed = set(SHAPES)
    for deck_size in range(1, 513):
        for hand_size in range(1, min(deck_size, 61) + 1):
            if (deck_size, hand_size) in allowed:
                Dealer(deck_size, hand_size)
            else:
                with pytest.raises(InvalidValueError, match="bits of entropy"):
                    Dealer(deck_size, hand_size)
    assert max(hand_size for _, hand_size in allowed) == 15
