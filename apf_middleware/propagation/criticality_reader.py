"""Find the criticality of a request in its headers, as far as its caller may claim it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from apf_middleware.criticality import Criticality, CriticalityFormat, read_criticality

__all__ = ["CriticalityReader"]

_MOST_HEADERS: Final = 32


class CriticalityReader:
    """Read the ``headers``, each in its format; a request without any has the ``usual`` criticality.

    Values that can't be read are ignored; ``invalid`` counts them by header, and ``lowered`` the claims of callers that
    may not claim so much.
    """

    __slots__ = ("_headers", "_usual", "invalid", "lowered")

    def __init__(
        self,
        headers: Mapping[str, CriticalityFormat],
        usual: Criticality,
        *,
        invalid: Counter[str] | None = None,
        lowered: Counter[str] | None = None,
    ) -> None:
        self._headers = {name.encode("latin-1"): written for name, written in headers.items()}
        self._usual = usual
        self.invalid: Counter[str] = Counter() if invalid is None else invalid
        self.lowered: Counter[str] = Counter() if lowered is None else lowered

    def read(self, headers: Iterable[Sequence[bytes]], *, is_trusted: bool) -> Criticality:
        """Return the criticality: the least that is claimed, and more than usual only if the caller ``is_trusted``.

        Of many headers the last 32 are read, because proxies add theirs at the end.
        """
        claimed: Criticality | None = None
        claims = [(name, value) for name, value in headers if name in self._headers]
        for name, value in claims[-_MOST_HEADERS:]:
            try:
                found = read_criticality(self._headers[name], value)
            except ValueError:
                self.invalid[name.decode("latin-1")] += 1
                continue
            if found is not None and (claimed is None or found < claimed):
                claimed = found
        if claimed is None:
            return self._usual
        if claimed > self._usual and not is_trusted:
            self.lowered[claimed.key] += 1
            return self._usual
        return claimed

    def __repr__(self) -> str:
        return f"<CriticalityReader of {len(self._headers)} headers>"
