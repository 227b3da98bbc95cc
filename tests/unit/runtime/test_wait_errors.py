"""Expected errors are those of recent predictions of waits that are about as long."""

import pytest

from apf_middleware.runtime.wait_errors import USUAL_ERROR, WaitErrors

MS = 10**6


def learned(predicted_ms: int, waited_ms: int, times: int = 100) -> WaitErrors:
    errors = WaitErrors()
    for _ in range(times):
        errors.learn(predicted_ms * MS, waited_ms * MS)
    return errors


@pytest.mark.parametrize("waited_ms", [800, 1200])
def test_too_short_and_too_long_predictions_are_errors(waited_ms: int) -> None:
    assert learned(1000, waited_ms).expected(1000 * MS) == pytest.approx(0.2)


def test_an_error_is_usual_until_enough_waits_are_known() -> None:
    assert WaitErrors().expected(1000 * MS) == USUAL_ERROR
    assert learned(1000, 1000, times=19).expected(1000 * MS) == USUAL_ERROR
    assert learned(1000, 1000, times=20).expected(1000 * MS) == 0


def test_errors_depend_on_the_size_of_the_wait() -> None:
    errors = learned(1000, 1050)
    for _ in range(100):
        errors.learn(2 * MS, 3 * MS)

    assert errors.expected(1000 * MS) == pytest.approx(0.05)
    assert errors.expected(2 * MS) == pytest.approx(0.5)
    assert errors.expected(60_000 * MS) == USUAL_ERROR


def test_old_errors_fade() -> None:
    errors = learned(1000, 2000, times=500)
    for _ in range(1500):
        errors.learn(1000 * MS, 1000 * MS)

    assert errors.expected(1000 * MS) < 0.01


def test_the_text_tells_the_number_of_waits() -> None:
    assert repr(learned(10, 11, times=3)) == "<WaitErrors of 3 waits>"
