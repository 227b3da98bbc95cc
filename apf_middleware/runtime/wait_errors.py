"""How wrong the recent predictions of waits were, by the size of the predicted wait.

Short waits depend on the few requests that run just then, so they can't be predicted well; long ones depend on many.
Waits are put together that differ by less than a factor of two.
"""

from typing import Final

__all__ = ["USUAL_ERROR", "WaitErrors"]

USUAL_ERROR: Final = 0.1
"""Expected until enough waits are known."""

_ENOUGH: Final = 20
_SPAN: Final = 256


class WaitErrors:
    """The mean relative errors of the predictions at one level, the older ones fading exponentially."""

    __slots__ = ("_counts", "_errors")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._errors: dict[int, float] = {}

    def learn(self, predicted_ns: int, waited_ns: int) -> None:
        """Learn from a wait that was predicted to last at least a nanosecond."""
        size = predicted_ns.bit_length()
        count = self._counts[size] = self._counts.get(size, 0) + 1
        before = self._errors.get(size, 0.0)
        error = abs(waited_ns - predicted_ns) / predicted_ns
        self._errors[size] = before + (error - before) / min(count, _SPAN)

    def expected(self, predicted_ns: int) -> float:
        """Return the expected error of a prediction, as a part of the predicted wait."""
        size = predicted_ns.bit_length()
        return self._errors[size] if self._counts.get(size, 0) >= _ENOUGH else USUAL_ERROR

    def __repr__(self) -> str:
        return f"<WaitErrors of {sum(self._counts.values())} waits>"
