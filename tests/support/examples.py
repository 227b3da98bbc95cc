"""The number of random cases: few by default, and ``APF_EXAMPLES`` times as many for a long run."""

import os
from typing import Any, Final

from hypothesis import settings

__all__ = ["FACTOR", "examples", "seeds"]

FACTOR: Final = float(os.environ.get("APF_EXAMPLES", "1"))


def examples(number: int, **options: Any) -> settings:  # noqa: ANN401 - hypothesis's own options
    """Return settings for ``number`` examples in an ordinary run."""
    return settings(max_examples=max(1, round(number * FACTOR)), deadline=None, **options)


def seeds(number: int) -> range:
    """Return the seeds of ``number`` random worlds in an ordinary run."""
    return range(max(1, round(number * FACTOR)))
