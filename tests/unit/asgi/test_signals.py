"""Handlers of signals: each hears them, passes them on, and leaves what others have installed."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from apf_middleware.asgi.signals import Signals

ONE = signal.SIGUSR1


@pytest.fixture(autouse=True)
def happened() -> Iterator[list[str]]:
    """Return what has happened at signals; the server itself has a handler."""
    heard: list[str] = []
    before = signal.signal(ONE, lambda *_: heard.append("server"))
    yield heard
    signal.signal(ONE, before)


def test_a_signal_is_handled_and_passed_on(happened: list[str]) -> None:
    signals = Signals(ONE)
    signals.listen(lambda: happened.append("levels"))
    signals.listen(lambda: happened.append("levels again"))  # a second startup listens once
    signal.raise_signal(ONE)
    signals.forget()
    signal.raise_signal(ONE)

    assert happened == ["levels again", "server", "server"]


def test_signal_handlers_that_were_replaced_meanwhile_are_kept() -> None:
    signals = Signals(ONE)
    signals.listen(lambda: None)
    signal.signal(ONE, signal.SIG_IGN)
    signals.forget()

    assert signal.getsignal(ONE) is signal.SIG_IGN


def test_only_the_main_thread_handles_signals() -> None:
    before = signal.getsignal(ONE)
    thread = threading.Thread(target=lambda: Signals(ONE).listen(lambda: None))
    thread.start()
    thread.join()

    assert signal.getsignal(ONE) is before


def test_a_lifespan_in_another_thread_leaves_that_of_the_main_thread_its_signals(happened: list[str]) -> None:
    """For example of a test client in a test that is asynchronous itself."""
    signals = Signals(ONE)
    signals.listen(lambda: happened.append("levels"))
    with ThreadPoolExecutor(1) as threads:
        threads.submit(signals.listen, lambda: happened.append("a loop that has ended")).result()
        threads.submit(signals.forget).result()
    signal.raise_signal(ONE)
    signals.forget()

    assert happened == ["levels", "server"]


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_middlewares_stop_in_any_order(happened: list[str], order: str) -> None:
    before = signal.getsignal(ONE)
    listening = {name: Signals(ONE) for name in "abc"}
    for name, signals in listening.items():
        signals.listen(partial(happened.append, name))
    for name in order:
        happened.clear()
        signal.raise_signal(ONE)
        assert happened == [*reversed(listening), "server"]
        listening.pop(name).forget()

    assert signal.getsignal(ONE) is before


def test_one_that_listens_again_hears_each_signal_once(happened: list[str]) -> None:
    first, second = Signals(ONE), Signals(ONE)
    for _ in range(2000):  # more than the interpreter could call inside each other
        first.listen(lambda: happened.append("first"))
        second.listen(lambda: happened.append("second"))
        first.forget()
        first.listen(lambda: happened.append("first"))
        second.forget()
        first.forget()
    second.listen(lambda: happened.append("second"))
    first.listen(lambda: happened.append("first"))
    signal.raise_signal(ONE)
    second.forget()
    signal.raise_signal(ONE)
    first.forget()

    assert happened == ["first", "second", "server", "first", "server"]


def test_a_handler_of_others_that_passes_on_to_a_stopped_one_reaches_the_server(happened: list[str]) -> None:
    signals = Signals(ONE)
    signals.listen(lambda: happened.append("levels"))
    stopped = signal.getsignal(ONE)
    assert callable(stopped)
    signal.signal(ONE, partial(stopped))
    signals.forget()
    signal.raise_signal(ONE)

    assert happened == ["server"]
    assert repr(stopped) == "<signal handler of apf-middleware, stopped>"
