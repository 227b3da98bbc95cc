"""Answers of functions that are called in the background."""

import threading
from functools import partial

import pytest

from apf_middleware.cli.control.threads import in_background


def test_the_answer_or_the_error_comes_later() -> None:
    begun = threading.Event()

    def succeed() -> int:
        begun.wait(60)
        return 7

    answer = in_background(succeed)
    failure = in_background(partial(int, "seven"))

    assert not answer.done()
    begun.set()
    assert answer.result(60) == 7
    with pytest.raises(ValueError, match="seven"):
        failure.result(60)


def test_a_call_that_hangs_does_not_keep_the_process() -> None:
    assert in_background(lambda: threading.current_thread().daemon).result(60)
