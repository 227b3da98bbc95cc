"""The moments at which the fair share rose above a whole number of seats.

A queue with a constant number of seats falls behind faster from such a moment on, so the least value of ``r`` minus its
service may have been there (see `guarantee`).
"""

from bisect import bisect_left

from apf_middleware.fairqueuing.work import GRAIN_BITS

__all__ = ["RiseLog"]


class RiseLog:
    """The rises since ``epoch``, each of which is read once for each number of seats that is asked for."""

    __slots__ = ("_rises", "_suffixes", "count", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch: int = epoch
        self.count: int = 0
        self._rises: list[tuple[int, int, int, int]] = []
        # By seats: how many rises have been read, the numbers of those that matter, and their values. The values
        # ascend: a rise with a lower value makes all earlier ones with higher values irrelevant.
        self._suffixes: dict[int, tuple[int, list[int], list[int]]] = {}

    def add(self, r: int, now: int, low: int, high: int) -> None:
        """Add the rise of the share above ``low``, ``low + 1``, … ``high - 1`` seats at ``now``, with this ``r``."""
        self._rises.append((r, now - self.epoch, low, high))
        self.count += 1

    def least(self, seats: int, since: int) -> int | None:
        """Return the least ``r - seats * (now - epoch)``, in grains, of the rises from number ``since`` on."""
        read, numbers, values = self._suffixes.get(seats) or (0, [], [])
        if read < self.count:
            for number in range(read, self.count):
                r, elapsed, low, high = self._rises[number]
                if low <= seats < high:
                    value = r - (seats * elapsed << GRAIN_BITS)
                    while values and values[-1] >= value:
                        values.pop()
                        numbers.pop()
                    numbers.append(number)
                    values.append(value)
            self._suffixes[seats] = self.count, numbers, values
        place = bisect_left(numbers, since)
        return values[place] if place < len(values) else None

    def clear(self, epoch: int) -> None:
        """Forget all rises, once each queue has read them; the next ones are counted from this ``epoch``."""
        self.epoch = epoch
        self.count = 0
        self._rises.clear()
        self._suffixes.clear()
