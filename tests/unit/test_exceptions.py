"""What is raised says name, value, rule and next step."""

import pickle
from fractions import Fraction
from math import inf, nan

import pytest

from apf_middleware import exceptions
from apf_middleware.exceptions import (
    APFError,
    ClockError,
    InvalidValueError,
    MissingExtraError,
    require_amount,
    require_flag,
    require_integer,
)


def test_an_invalid_value_names_value_rule_and_next_step() -> None:
    error = InvalidValueError("seats", -1, "it must be at least 1", hint="Take more")

    assert str(error) == "seats is -1, but it must be at least 1. Take more"
    assert (error.name, error.value, error.rule, error.hint) == ("seats", -1, "it must be at least 1", "Take more")


def test_a_missing_extra_says_what_to_install() -> None:
    assert str(MissingExtraError("jwt", "jwt")) == (
        "the extra 'jwt' isn't installed (there is no package 'jwt'): pip install 'apf-middleware[jwt]'"
    )


def test_every_error_can_be_caught_as_one() -> None:
    errors = [getattr(exceptions, name) for name in exceptions.__all__ if name.endswith("Error")]

    assert len(errors) > 5
    assert all(issubclass(error, APFError) for error in errors)


def test_the_tree_in_the_docstring_names_every_error() -> None:
    for name in exceptions.__all__:
        if name.endswith("Error"):
            assert name in str(exceptions.__doc__)


def test_errors_survive_pickling() -> None:
    error = ClockError("now", 1, "it must not be before 2", hint="Use one monotonic clock")

    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert type(again) is ClockError
    assert str(again) == str(error)


@pytest.mark.parametrize("value", [0, 5, 10])
def test_an_integer_within_the_bounds_is_let_through(value: int) -> None:
    assert require_integer("some", value, least=0, most=10) == value


@pytest.mark.parametrize("value", [1.0, "1", None, True])
def test_what_is_no_integer_is_refused(value: object) -> None:
    with pytest.raises(InvalidValueError, match=r"some is .* it must be an integer"):
        require_integer("some", value)


def test_integers_outside_the_bounds_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="some is -1, but it must be at least 0"):
        require_integer("some", -1, least=0)
    with pytest.raises(InvalidValueError, match="some is 11, but it must be at most 10"):
        require_integer("some", 11, most=10)


@pytest.mark.parametrize("value", [None, 1, "no"])
def test_what_is_no_boolean_is_refused_as_a_flag(value: object) -> None:
    require_flag("some", value=False)
    with pytest.raises(InvalidValueError, match=r"^some is .*, but it must be True or False$"):
        require_flag("some", value)


@pytest.mark.parametrize("value", [0, 1.5, 2**53, 2.0**53])
def test_an_amount_is_any_number_that_a_double_counts_seats_with(value: float) -> None:
    assert require_amount("some", value) is value


@pytest.mark.parametrize("value", [-1e-9, nan, inf, 2**53 + 1, True, None, "1", Fraction(1, 2)])
def test_what_is_no_amount_is_refused(value: object) -> None:
    with pytest.raises(InvalidValueError, match=r"some is .* it must be a number from 0 to"):
        require_amount("some", value)
