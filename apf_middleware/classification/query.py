"""The parameters of a query, of which some may be repeated.

Frameworks differ in what they take of a repeated parameter: Starlette and Django the last value, Go and Werkzeug the
first, and lists have all. A rule therefore asks whether one of the values meets its condition (`every_value`), so that
no caller evades it by a second value. Whatever needs one value takes the first.

Values are searched for by name, not parsed: clients choose how many parameters a query has, and to parse 64 KiB of them
takes up to 0.1 s. A limit to their number would let a caller hide a parameter behind many others.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from string import punctuation
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

__all__ = ["QueryParameters", "every_value"]

_MOST_LISTED: Final = 256
_MOST_VALUES: Final = 64
_MOST_PATTERNS: Final = 512
_LITERAL: Final = frozenset(range(256)) - set(b"&=+%")


class QueryParameters(Mapping[str, str]):
    """The parameters of a query as it was sent; as a mapping, each has its first value.

    An iteration has only the names of the first 256 parameters.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        self._raw = b"&" + raw  # each parameter begins in the same way, which regexes find ten times as fast

    @classmethod
    def of_text(cls, text: str) -> "QueryParameters":
        """Return the parameters of a query that may have characters which a client would encode."""
        return cls(quote(text, safe=punctuation).encode())

    def every(self, name: str) -> list[str]:
        """Return the values of a parameter in their order; of more than 64 the first and the last 32.

        A value of bytes that aren't encoded is there as Latin-1, as Starlette reads it, and as UTF-8, as Django does.
        """
        found = _pattern(name).findall(self._raw)
        if len(found) > _MOST_VALUES:
            found = [*found[: _MOST_VALUES // 2], *found[-_MOST_VALUES // 2 :]]
        return [reading for value in found for reading in _readings(value)]

    def __getitem__(self, name: str) -> str:
        found = _pattern(name).search(self._raw)
        if found is None:
            raise KeyError(name)
        return _readings(found[1] or b"")[0]

    def __iter__(self) -> Iterator[str]:
        first = b"&".join(self._raw[1:].split(b"&", _MOST_LISTED)[:_MOST_LISTED])
        return iter(dict.fromkeys(name for name, _ in parse_qsl(first.decode("latin-1"), keep_blank_values=True)))

    def __len__(self) -> int:
        return len(list(iter(self)))


def every_value(among: Mapping[str, str], name: str) -> Sequence[str]:
    """Return all values of a parameter; a mapping that isn't `QueryParameters` has at most one."""
    if isinstance(among, QueryParameters):
        return among.every(name)
    value = among.get(name)
    return () if value is None else (value,)


def _readings(value: bytes) -> list[str]:
    """Return the texts that frameworks take a value for: of bytes that a client should have encoded there are two."""
    plain = value.replace(b"+", b" ")
    found = [unquote(plain.decode("latin-1"))]
    if not plain.isascii():
        with suppress(UnicodeDecodeError):
            found.append(unquote(plain.decode()))
    return found


@lru_cache(_MOST_PATTERNS)
def _pattern(name: str) -> re.Pattern[bytes]:
    """Return a regex that finds a parameter and captures its value, however the characters of its name are encoded."""
    return re.compile(b"&" + b"".join(map(_encodings, name)) + rb"(?:=([^&]*))?(?=&|\Z)")


def _encodings(character: str) -> bytes:
    """Return a regex of the ways to write a character in a query."""
    escaped = b"".join(b"%" + _digit(byte >> 4) + _digit(byte & 15) for byte in character.encode("utf-8", "replace"))
    if character == "%":
        return rb"(?:%(?![0-9A-Fa-f]{2})|" + escaped + b")"
    more = [rb"\+"] if character == " " else []
    if ord(character) in _LITERAL:
        more.append(re.escape(character.encode("latin-1")))
    if not character.isascii():
        more.append(re.escape(character.encode("utf-8", "replace")))
    return b"(?:" + b"|".join([*more, escaped]) + b")"


def _digit(value: int) -> bytes:
    return b"%d" % value if value < 10 else b"[%c%c]" % (55 + value, 87 + value)
