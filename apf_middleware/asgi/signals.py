"""Handlers of signals, each of which passes a signal on to the handler that was installed before it.

Several middlewares may listen in one process, and each may stop first. A handler that has stopped while a later one is
installed stays where it is, because the later one passes signals on to it; from then on it only passes them on.
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

__all__ = ["Signals"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def _nothing() -> None:
    """Do nothing; this is the callback until another is set."""


class Signals:
    """Handlers of several signals, which call ``leave`` and then the handler that was installed before.

    The default ``numbers`` are SIGTERM and SIGINT. If there was no handler before, the default action of the system is
    taken only if the signals ``may_end`` the process, and ``perish`` is called before it.
    """

    __slots__ = ("_handlers", "_numbers", "leave", "may_end", "perish")

    def __init__(self, *numbers: signal.Signals, may_end: bool = True) -> None:
        self._numbers = numbers or _SIGNALS
        self._handlers: dict[signal.Signals, _Handler] = {}
        self.may_end: bool = may_end
        self.leave: Callable[[], object] = _nothing
        self.perish: Callable[[], None] = _nothing

    def listen(self, leave: Callable[[], object], perish: Callable[[], None] = _nothing) -> None:
        """Call ``leave`` at each signal from now on, and ``perish`` if the signal is about to kill the process.

        Python allows this only in the main thread; in other threads this method does nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        self.leave, self.perish = leave, perish
        if self._handlers:
            return
        for one in self._numbers:
            before = signal.getsignal(one)
            if before is not None:  # None: installed by C code, which can't be called from here
                self._handlers[one] = handler = _Handler(self, before)
                signal.signal(one, handler)

    def forget(self) -> None:
        """Restore the previous handlers, except where a signal has got another handler since.

        In other threads than the main one this method does nothing, either.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for one, handler in self._handlers.items():
            handler.signals, following = None, handler.following
            if signal.getsignal(one) is handler:
                signal.signal(one, following)
        self._handlers.clear()


class _Handler:
    """The handler of one signal, and the one that was installed ``before``; ``signals`` is None when it has stopped."""

    __slots__ = ("_before", "signals")

    def __init__(self, signals: Signals, before: Any) -> None:  # noqa: ANN401 - as `signal.getsignal` returns it
        self.signals: Signals | None = signals
        self._before = before

    @property
    def following(self) -> Any:  # noqa: ANN401
        """The handler that was installed before, or before that one if that one has stopped."""
        while isinstance(self._before, _Handler) and self._before.signals is None:
            self._before = self._before._before  # noqa: SLF001 - of the same class
        return self._before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        signals, following = self.signals, self.following
        if signals is not None:
            signals.leave()
        if callable(following):
            following(number, frame)
        elif following is signal.SIG_DFL and (signals is None or signals.may_end):
            if signals is not None:
                signals.perish()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def __repr__(self) -> str:
        return f"<signal handler of apf-middleware{'' if self.signals else ', stopped'}>"
