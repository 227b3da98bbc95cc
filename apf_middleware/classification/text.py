"""Checks of names and regexes, and text made safe for display."""

import re
import warnings
from hashlib import blake2b
from typing import Final

from apf_middleware.exceptions import InvalidValueError

__all__ = ["LONGEST_FLOW", "abridge", "compile_regex", "printable", "require_text"]

LONGEST_FLOW: Final = 256
"""The maximum length of a flow's name, in characters."""

_LONGEST_NAME: Final = 256


def compile_regex(name: str, pattern: object) -> re.Pattern[str]:
    """Return ``pattern`` compiled, or raise InvalidValueError with the reason."""
    if not isinstance(pattern, str):
        raise InvalidValueError(name, pattern, "it must be a regular expression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # a set that Python announces to read differently
            return re.compile(pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise InvalidValueError(name, pattern, f"it must be a regular expression: {error}") from error


def require_text(name: str, value: object) -> str:
    """Return ``value``, or raise InvalidValueError if it isn't a string or is empty."""
    if not isinstance(value, str) or not value:
        raise InvalidValueError(name, value, "it must be a string that isn't empty")
    return value


def printable(text: str, *, most: int = _LONGEST_NAME) -> str:
    """Return ``text`` on one line without control characters, cut to its beginning if it is long."""
    if len(text) > most:
        text = f"{text[:most]}..."
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def abridge(name: str, most: int = LONGEST_FLOW, mark: str = "~", digest_bytes: int = 16) -> str:
    """Return the name of a flow, say; of one of more than ``most`` characters the beginning, a mark and a digest.

    Clients choose names in headers, queries and paths, and what remembers flows mostly bounds their number only. A
    beginning alone could be that of many flows.
    """
    if len(name) <= most:
        return name
    digits = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=digest_bytes).hexdigest()
    return f"{name[: most - len(digits) - 1]}{mark}{digits}"
