r"""A strict parser of distinguished names in the syntax of RFC 4514: ``CN=alice,O=staff\, first floor``.

The owner of a certificate may have chosen parts of its name, so an escaped comma must not begin a new attribute.
"""

import re
from typing import Final

__all__ = ["parse_name"]

_OIDS: Final = {"2.5.4.3": "CN", "2.5.4.10": "O"}
_TYPE: Final = re.compile(r" *(?:OID\.)?([A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*) *= *", re.IGNORECASE)
_VALUE: Final = re.compile(r'(?:[^\\,+"<>;\0]|\\[0-9A-Fa-f]{2}|\\[ "#+,;<=>\\])*')
_ESCAPED: Final = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|([ "#+,;<=>\\]))')
_ONLY_SPACES: Final = re.compile(r" *")


def parse_name(text: str) -> list[tuple[str, str]] | None:
    """Return pairs of a type, in upper case, and a value in their order; None if the text isn't a valid name."""
    found: list[tuple[str, str]] = []
    place = 0
    if _ONLY_SPACES.fullmatch(text):
        return found
    while True:
        kind = _TYPE.match(text, place)
        value = _VALUE.match(text, kind.end()) if kind else None
        if kind is None or value is None:
            return None
        name = _OIDS.get(kind[1], kind[1].upper())
        if not value[0].startswith("#"):  # a hex-encoded value, of a type without a text form
            plain = _plain(value[0])
            if plain is None:
                return None
            found.append((name, plain))
        place = value.end()
        if place == len(text):
            return found
        if text[place] not in ",+":
            return None
        place += 1


def _plain(value: str) -> str | None:
    """Return the value without escapes and unescaped spaces at the end; None if it isn't valid UTF-8."""
    end = len(value.rstrip(" "))
    if (end - len(value[:end].rstrip("\\"))) % 2:  # the last backslash escapes the space after it
        end += 1
    try:
        raw = value[:end].encode("utf-8")
        return _ESCAPED.sub(lambda one: bytes.fromhex(one[1].decode()) if one[1] else one[2], raw).decode("utf-8")
    except UnicodeError:
        return None
