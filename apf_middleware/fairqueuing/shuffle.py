"""Shuffle sharding: the few queues that a flow may use, so that a heavy flow can't fill those of all others.

A level's queues are a deck of cards (see `deck`); 64 bits of entropy, hashed from the flow, deal a hand of distinct
cards. The same flow always gets the same hand, and two flows rarely share a whole one. The hash and the dealing are the
same as in Kubernetes, bit by bit. The hash must have more entropy than a deal consumes, because otherwise the last
cards are dealt unevenly. The bound of 60 bits limits the unevenness to about 32:33.
"""

import hashlib
import math

from apf_middleware.compilation import quotient
from apf_middleware.exceptions import InvalidValueError, require_integer

__all__ = [
    "MAX_DECK_SIZE",
    "MAX_ENTROPY_BITS",
    "Dealer",
    "collision_probabilities",
    "entropy_bits",
    "flow_hash",
]

MAX_DECK_SIZE = 2**26
"""The largest deck that can be dealt from."""

MAX_ENTROPY_BITS = 60
"""The most entropy that a deal may consume of the 64 bits of a hash."""

_MOST_ENTROPY = 2**64 - 1
_MOST_ELEPHANTS = 1000  # the distribution that is computed grows with each of them


def flow_hash(schema: str, distinguisher: str) -> int:
    """Return 64 bits of entropy for a flow, the (schema, distinguisher) pair."""
    # A well-formed request has no surrogates; those of an ill-formed one must not raise an error.
    flow = f"{schema}\0{distinguisher}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(flow).digest()[:8], "little")


def entropy_bits(deck_size: int, hand_size: int) -> int:
    """Return the bits of entropy that a deal consumes."""
    require_integer("deck size", deck_size, least=1)
    require_integer("hand size", hand_size, least=1)
    return math.ceil(math.log2(deck_size) * hand_size)


class Dealer:
    """Deals hands of ``hand_size`` distinct cards from a deck of ``deck_size``."""

    __slots__ = ("deck_size", "hand_size")

    def __init__(self, deck_size: int, hand_size: int) -> None:
        require_integer("deck size", deck_size, least=1, most=MAX_DECK_SIZE)
        require_integer("hand size", hand_size, least=1)
        if hand_size > deck_size:
            raise InvalidValueError("hand size", hand_size, f"a hand can't exceed the deck of {deck_size}")
        bits = entropy_bits(deck_size, hand_size)
        if bits > MAX_ENTROPY_BITS:
            raise InvalidValueError(
                "hand size",
                hand_size,
                f"with a deck of {deck_size} a deal consumes {bits} bits of entropy and at most {MAX_ENTROPY_BITS} "
                "are allowed",
                hint="Take a smaller hand or a smaller deck",
            )
        self.deck_size: int = deck_size
        self.hand_size: int = hand_size

    def __repr__(self) -> str:
        return f"Dealer(deck_size={self.deck_size}, hand_size={self.hand_size})"

    def deal(self, entropy: int) -> tuple[int, ...]:
        """Return the hand for these 64 bits, in the order dealt."""
        if entropy.__class__ is not int or entropy >> 64:
            require_integer("entropy", entropy, least=0, most=_MOST_ENTROPY)
        dealt: list[int] = []  # ascending
        hand = []
        for left in range(self.deck_size, self.deck_size - self.hand_size, -1):
            card = place = entropy % left
            entropy //= left
            # ``place`` counts only the cards that are still in the deck: step over the dealt ones before it.
            for gone in dealt:
                if card < gone:
                    break
                card += 1
            hand.append(card)
            dealt.insert(card - place, card)
        return tuple(hand)


def collision_probabilities(deck_size: int, hand_size: int, elephants: int) -> list[float]:
    """Return the probabilities that 1, 2, … ``elephants`` heavy flows cover the whole hand of a random light one.

    Hands are assumed to be uniform and independent, which hashing gives approximately. The distribution of the number
    of distinct cards that the elephants hold is computed step by step, from one elephant to the next.
    """
    Dealer(deck_size, hand_size)
    require_integer("elephants", elephants, least=1, most=_MOST_ELEPHANTS)
    hands = math.comb(deck_size, hand_size)
    held = {hand_size: 1.0}
    covered = [quotient(1, hands)]
    for _ in range(elephants - 1):
        grown: dict[int, float] = {}
        for distinct, likely in held.items():
            for fresh in range(min(hand_size, deck_size - distinct) + 1):
                ways = math.comb(deck_size - distinct, fresh) * math.comb(distinct, hand_size - fresh)
                grown[distinct + fresh] = grown.get(distinct + fresh, 0.0) + likely * quotient(ways, hands)
        held = grown
        covered.append(math.fsum(likely * quotient(math.comb(n, hand_size), hands) for n, likely in held.items()))
    return covered
