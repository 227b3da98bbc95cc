"""What people write: checks of names and regexes, and how it is shown."""

import re
import warnings
from typing import Final

from apf_middleware.exceptions import InvalidValueError

__all__ = ["compile_regex", "printable", "require_text"]

_LONGEST_NAME: Final = 256


def compile_regex(name: str, pattern: object) -> re.Pattern[str]:
    """``pattern`` compiled, or an InvalidValueError that says what is wrong with it."""
    if not isinstance(pattern, str):
        raise InvalidValueError(name, pattern, "it must be a regular expression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # a set that Python will read otherwise one day
            return re.compile(pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise InvalidValueError(name, pattern, f"it must be a regular expression: {error}") from error


def require_text(name: str, value: object) -> str:
    """``value`` as it came, or an InvalidValueError when it isn't a string or is empty."""
    if not isinstance(value, str) or not value:
        raise InvalidValueError(name, value, "it must be a string that isn't empty")
    return value


def printable(name: str, *, most: int = _LONGEST_NAME) -> str:
    """On one line and harmless; of a long one the beginning, for all rows become as wide as the widest."""
    if len(name) > most:
        name = f"{name[:most]}..."
    if name.isprintable():
        return name
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in name)
