"""Threads that don't keep a command from ending, as those of an executor do, which are joined even after Ctrl-C."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

__all__ = ["in_background"]

AnswerT = TypeVar("AnswerT")


def in_background(call: Callable[[], AnswerT]) -> Future[AnswerT]:
    """Call a function in a thread of its own, and return the future of its answer."""
    answer = Future[AnswerT]()
    Thread(target=_settle, args=(answer, call), daemon=True, name="apf").start()
    return answer


def _settle(answer: Future[AnswerT], call: Callable[[], AnswerT]) -> None:
    try:
        answer.set_result(call())
    except Exception as error:  # noqa: BLE001 - raised again where the answer is read
        answer.set_exception(error)
