"""How much it matters that a request is served, and the formats in which headers say so.

The four values are those of Google's services. Under overload the least critical requests are the first to wait and to
be rejected, if the schemas give them levels of their own.
"""

import re
from enum import IntEnum
from typing import Final, Literal, get_args

from apf_middleware.baggage import add_member, find_members

__all__ = [
    "BAGGAGE_KEY",
    "CRITICALITY_FORMATS",
    "Criticality",
    "CriticalityFormat",
    "read_criticality",
    "write_criticality",
]

BAGGAGE_KEY: Final = "apf.criticality"
"""The key of the member in W3C baggage."""

CriticalityFormat = Literal["name", "urgency", "baggage"]
"""The format of a header: a name, RFC 9218's urgency (``u=3``), or a member of W3C baggage."""

CRITICALITY_FORMATS: Final[tuple[CriticalityFormat, ...]] = get_args(CriticalityFormat)

_URGENCY: Final = re.compile(rb"(?:^|,)[ \t]*u=([0-7])[ \t]*(?:;[^,]*)?(?=,|$)")
_MOST_BYTES: Final = 8192
_MOST_CLAIMS: Final = 64  # in one header


class Criticality(IntEnum):
    """The criticality of a request; a larger one matters more."""

    SHEDDABLE = 0
    """Work for which no user waits, and which can be done later."""
    SHEDDABLE_PLUS = 1
    """Batch work, whose result is needed at some time."""
    CRITICAL = 2
    """A user waits."""
    CRITICAL_PLUS = 3
    """Without it the service is down."""

    @property
    def key(self) -> str:
        """The name in configurations and headers, such as ``sheddablePlus``."""
        return _KEYS[self]

    @classmethod
    def of(cls, key: str) -> "Criticality":
        """Return the criticality of this name."""
        return _BY_NAME[key.lower().encode()]


_KEYS: Final = {
    Criticality.SHEDDABLE: "sheddable",
    Criticality.SHEDDABLE_PLUS: "sheddablePlus",
    Criticality.CRITICAL: "critical",
    Criticality.CRITICAL_PLUS: "criticalPlus",
}
_BY_NAME: Final = {key.lower().encode(): one for one, key in _KEYS.items()}
_BY_URGENCY: Final = (
    *(Criticality.CRITICAL_PLUS, Criticality.CRITICAL_PLUS, Criticality.CRITICAL, Criticality.CRITICAL),
    *(Criticality.SHEDDABLE_PLUS, Criticality.SHEDDABLE_PLUS, Criticality.SHEDDABLE, Criticality.SHEDDABLE),
)
_URGENCIES: Final = {one: max(place for place in range(8) if _BY_URGENCY[place] is one) for one in Criticality} | {
    Criticality.CRITICAL: 3,  # the default of RFC 9218
    Criticality.CRITICAL_PLUS: 0,
}


def read_criticality(written: CriticalityFormat, value: bytes) -> Criticality | None:
    """Return what a header says; None if it says nothing about that. Raise ValueError if it can't be read.

    If it says several things, the least counts: a service on the way may have added to what the client had sent. So
    names that can't be read are ignored beside others. Names may be written with underscores, hyphens and in capitals:
    ``SHEDDABLE_PLUS``, ``critical-plus``.
    """
    if written == "baggage":
        return _least_of(find_members(value, BAGGAGE_KEY))
    if len(value) > _MOST_BYTES:
        raise ValueError("too long")
    claims = value.rsplit(b",", _MOST_CLAIMS)[-_MOST_CLAIMS:]  # the last, because proxies add theirs at the end
    if written == "name":
        return _least_of(claims)
    return min((_BY_URGENCY[int(one)] for one in _URGENCY.findall(b",".join(claims))), default=None)


def _least_of(names: list[bytes]) -> Criticality | None:
    """Return the least of the criticalities with these names; None if there are no names."""
    known = [_BY_NAME.get(name.strip().lower().replace(b"_", b"").replace(b"-", b"")) for name in names]
    found = [one for one in known if one is not None]
    if known and not found:
        raise ValueError("unknown name")
    return min(found, default=None)


def write_criticality(written: CriticalityFormat, criticality: Criticality, before: str = "") -> str:
    """Return the value of a header; a header that was there ``before`` keeps its other members of baggage."""
    if written == "name":
        return criticality.key
    if written == "urgency":
        return f"u={_URGENCIES[criticality]}"
    return add_member(before, BAGGAGE_KEY, criticality.key)
