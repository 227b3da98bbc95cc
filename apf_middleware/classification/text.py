"""Checks of what people write: names and regexes."""

import re
import warnings

from apf_middleware.exceptions import InvalidValueError

__all__ = ["compile_regex", "require_text"]


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
