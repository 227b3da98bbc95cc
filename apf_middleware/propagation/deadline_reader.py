"""Find the time that a request leaves for its response, in its headers and its query."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

from apf_middleware.propagation.time_limits import NO_LIMIT, LimitFormat, elapsed_ns, read_limit

__all__ = ["DeadlineReader"]

_MOST_HEADERS: Final = 32
_MOST_PARAMETERS: Final = 100
_LONGEST_VALUE: Final = 256  # of the parameter, with its characters encoded; any longer text isn't a limit
_LONGEST_NS: Final = 10**6 * 10**9  # eleven days; some clients write the greatest number that fits for "no limit"


class DeadlineReader:
    """Read the ``limits``, by name of the header, and in front ends' ``starts`` how much of the time has passed.

    ``query`` is the name of a parameter with a limit like ``1m30s``; without a name, no parameter is read. Values that
    can't be read are ignored; ``invalid`` counts them by header or parameter. ``wall`` returns the time since 1970.
    """

    __slots__ = ("_limits", "_query", "_starts", "_wall", "invalid")

    def __init__(
        self,
        limits: Mapping[str, LimitFormat],
        starts: Iterable[str],
        query: str,
        wall: Callable[[], int],
        invalid: Counter[str] | None = None,
    ) -> None:
        self._limits = {name.encode("latin-1"): written for name, written in limits.items()}
        self._starts = frozenset(name.encode("latin-1") for name in starts)
        self._query = query
        self._wall = wall
        self.invalid: Counter[str] = Counter() if invalid is None else invalid

    def read(
        self, headers: Iterable[Sequence[bytes]], query: bytes, *, from_proxy: bool, age_ns: int = 0
    ) -> tuple[int | None, int]:
        """Return the limit of a request, None if it has none, and how much of it had passed when the request arrived.

        The request arrived ``age_ns`` ago. The shortest of several limits counts, of many headers that of the last 32;
        one that is a time stamp may be negative. What front ends tell counts if the request comes ``from_proxy``.
        """
        arrived, elapsed = self._wall() - age_ns, 0
        known = [(name, value) for name, value in headers if name in self._limits or name in self._starts]
        known = known[-_MOST_HEADERS:]
        for name, value in known if from_proxy else ():
            if name in self._starts:
                elapsed = max(elapsed, self._read(name, value, None, arrived) or 0)
        began = arrived - elapsed
        limit = self._in_query(query, began) if self._query and query else None
        for name, value in known:
            if (written := self._limits.get(name)) is not None:
                found = self._read(name, value, written, began)
                if found is not None and (limit is None or found < limit):
                    limit = found
        return limit, elapsed

    def _read(self, name: bytes, value: bytes, written: LimitFormat | None, wall_ns: int) -> int | None:
        """Return a limit, or the time elapsed if nothing is ``written``; count a value that can't be read."""
        value = value.strip(b" \t")  # some servers leave the whitespace that may follow a value
        try:
            if written is None:
                return elapsed_ns(value, wall_ns)
            limit = read_limit(written, value, wall_ns)
        except ValueError:
            self.invalid[name.decode("latin-1")] += 1
            return None
        return None if limit == NO_LIMIT else min(limit, _LONGEST_NS)

    def _in_query(self, query: bytes, wall_ns: int) -> int | None:
        asked = self._query.encode()
        if asked not in query or query.count(b"&") >= _MOST_PARAMETERS:
            return None
        pairs = [pair.partition(b"=") for pair in query.split(b"&")]
        value = next((value for name, _, value in pairs if name == asked), b"")
        if not value:
            return None
        limit = self._read(asked, unquote_to_bytes(value[:_LONGEST_VALUE]), "duration", wall_ns)
        return limit or None  # 0s means the server's own limit, as in Kubernetes

    def __repr__(self) -> str:
        return f"<DeadlineReader of {len(self._limits)} headers>"
