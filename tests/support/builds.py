"""What tests may expect of the two builds, where their behaviour differs: arguments of a wrong type.

In the compiled build a function checks the types of its arguments before its first statement, and a bool is an integer.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from apf_middleware import is_compiled
from apf_middleware.exceptions import InvalidValueError

__all__ = ["BOOL_FOR_A_NUMBER", "raises_for_wrong_type"]

BOOL_FOR_A_NUMBER = pytest.param(
    True, marks=pytest.mark.skipif(is_compiled, reason="the compiled build takes a bool for a number")
)
"""A case of a parametrized test."""


@contextmanager
def raises_for_wrong_type(match: str) -> Iterator[None]:
    """Expect InvalidValueError with a message that matches, or, in the compiled build, TypeError."""
    with pytest.raises((InvalidValueError, TypeError)) as caught:
        yield
    if is_compiled and caught.type is TypeError:
        return
    assert caught.type is InvalidValueError
    assert re.search(match, str(caught.value)), f"{caught.value} doesn't match {match}"
