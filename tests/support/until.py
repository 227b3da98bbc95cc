"""How tests wait for what no event tells."""

from collections.abc import Callable
from typing import Final

import anyio

__all__ = ["until"]

_PATIENCE_S: Final = 60  # on a machine that is busy with something else too


async def until(condition: Callable[[], object]) -> None:
    """Wait until ``condition()`` is true."""
    with anyio.fail_after(_PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - of many kinds
            await anyio.sleep(0.001)
