"""Observers of requests: recordings of the traffic, and configurations that are tried beside the one in force.

Each request is shown to all observers just before it asks for seats. The observation that an observer returns is then
told what becomes of the request.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from starlette.types import Message, Scope, Send

from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.runtime.admission import Admission, RequestObservation

__all__ = ["RequestObserver", "RequestObservers"]

_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})


class RequestObserver(Protocol):
    """Looks at each request before it asks for seats."""

    def begin(self, scope: Scope, resolved: ResolvedRequest) -> RequestObservation | None:
        """Return the observation of a request; None if this one isn't observed. This must not raise.

        If the observation has a method ``note_response``, that is called with the status when the response begins. It
        must not raise either.
        """
        ...


class RequestObservers:
    """The observers of a server; ``on_change`` is called when the first one comes and when the last one goes."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._observers: tuple[RequestObserver, ...] = ()
        self._on_change = on_change

    def __bool__(self) -> bool:
        return bool(self._observers)

    def add(self, observer: RequestObserver) -> None:
        """Show all requests from now on to ``observer``."""
        self._observers = (*self._observers, observer)
        if len(self._observers) == 1:
            self._on_change()

    def remove(self, observer: RequestObserver) -> None:
        """Show no more requests to ``observer``; do nothing if it isn't there."""
        if observer in self._observers:
            self._observers = tuple(one for one in self._observers if one is not observer)
            if not self._observers:
                self._on_change()

    def __iter__(self) -> Iterator[RequestObserver]:
        return iter(self._observers)

    def attach(self, scope: Scope, resolved: ResolvedRequest, admission: Admission, send: Send) -> Send:
        """Let all observers observe the request with this ``admission``; return the ``send`` that they listen to."""
        observations: tuple[RequestObservation, ...] = ()
        listeners: tuple[Callable[[int], None], ...] = ()
        for observer in self._observers:
            observation = observer.begin(scope, resolved)
            if observation is not None:
                observations += (observation,)
                listener = getattr(observation, "note_response", None)
                if listener is not None:
                    listeners += (listener,)
        if observations:
            admission.observations = observations
        return _ObservedSend(send, listeners) if listeners else send

    def __repr__(self) -> str:
        return f"<RequestObservers: {len(self._observers)}>"


class _ObservedSend:
    """The server's ``send``, which also tells observations the status of the response."""

    __slots__ = ("_listeners", "_send")

    def __init__(self, send: Send, listeners: tuple[Callable[[int], None], ...]) -> None:
        self._send = send
        self._listeners = listeners

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] in _STARTS:
            for listener in self._listeners:
                listener(message["status"])
        return self._send(message)
