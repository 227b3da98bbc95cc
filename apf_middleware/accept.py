"""Headers that list what a client accepts: ``Accept``, ``Accept-Encoding``."""

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["LONGEST", "Accepted", "parse_accept"]

LONGEST: Final = 1024
"""The number of characters of a header that are read. To read a megabyte, which some servers pass on, takes seconds."""


class Accepted(NamedTuple):
    """One entry, in lower case but for the values of its parameters; ``quality`` is from 0 (unacceptable) to 1."""

    name: str
    quality: float
    parameters: Mapping[str, str]


def parse_accept(header: str) -> list[Accepted]:
    """Return the entries of a header in their order; a quality that can't be read counts as 1.

    Of a header that is longer than `LONGEST`, only the beginning is read.
    """
    entries = []
    for entry in header[:LONGEST].split(","):
        name, *rest = (part.strip() for part in entry.split(";"))
        pairs = (parameter.partition("=") for parameter in rest)
        parameters = {key.strip().lower(): value.strip() for key, _, value in pairs}
        entries.append(Accepted(name.lower(), _quality(parameters.get("q", "1")), parameters))
    return entries


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 1.0
    return quality if 0 <= quality <= 1 else 1.0
