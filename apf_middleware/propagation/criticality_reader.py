"""Find the criticality of a request in its headers, as far as its caller may claim it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from apf_middleware.criticality import Criticality, CriticalityFormat, read_criticality

__all__ = ["CriticalityReader"]


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
        """Return the criticality: the least that is claimed, and more than usual only if the caller ``is_trusted``."""
        claimed: Criticality | None = None
        for name, value in headers:
            written = self._headers.get(name)
            if written is None:
                continue
            try:
                found = read_criticality(written, value)
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
