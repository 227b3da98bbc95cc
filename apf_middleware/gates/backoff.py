"""For how long to leave a gate alone that nothing tells of: from a first pause, doubled each time, up to a longest one.

Refusals and errors are counted apart. A pause is spread by a fifth in both directions, so that those who began together
don't come back together.
"""

from typing import Final

__all__ = ["FIRST_PAUSE_NS", "LONGEST_PAUSE_NS", "longest_pause", "pause", "rescue_pause", "spread"]

FIRST_PAUSE_NS: Final = 10_000_000
LONGEST_PAUSE_NS: Final = 10**9

_SPREAD: Final = 0.2


def pause(count: int, first_ns: int, most_ns: int) -> int:
    """After so many refusals in a row."""
    if count <= 0 or most_ns <= 0:
        return 0
    doublings = min(count - 1, most_ns.bit_length())  # more would only make a long number
    return min(first_ns << doublings, most_ns)


def longest_pause(wait_limit_ns: int) -> int:
    """For a request that may wait for so long."""
    return min(LONGEST_PAUSE_NS, wait_limit_ns // 4)


def rescue_pause(wait_limit_ns: int) -> int:
    """After which a gate is tried again although no event has told that it is open."""
    return max(1, min(LONGEST_PAUSE_NS, wait_limit_ns // 10))


def spread(pause_ns: int, chance: float) -> int:
    """A fifth less to a fifth more, as ``chance``, from 0 to 1, has it."""
    return pause_ns + int(pause_ns * _SPREAD * (2 * chance - 1))
