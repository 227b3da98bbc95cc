"""Observers of requests: recordings of the traffic, and configurations that are tried beside the one in force.

While there is an observer, no request takes the short way through the middleware: each is shown to all observers just
before it asks for seats. The observation that an observer returns is then told what becomes of the request. Without
observers a request costs nothing more.
"""

from collections.abc import Callable
from copy import copy
from typing import Protocol

from starlette.types import Scope

from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.runtime.admission import RequestObservation

__all__ = ["RequestObserver", "RequestObservers"]


class RequestObserver(Protocol):
    """Looks at each request before it asks for seats."""

    def begin(self, scope: Scope, resolved: ResolvedRequest) -> RequestObservation | None:
        """Return the observation of a request; None if this one isn't observed. This must not raise."""
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

    def attach(self, scope: Scope, resolved: ResolvedRequest) -> ResolvedRequest:
        """Return the resolved request with the observations of all observers."""
        begun = (observer.begin(scope, resolved) for observer in self._observers)
        observations = tuple(one for one in begun if one is not None)
        if not observations:
            return resolved
        alone = copy(resolved)  # ``resolved`` may be in the cache, which other requests use
        alone.observations = observations
        return alone

    def __repr__(self) -> str:
        return f"<RequestObservers: {len(self._observers)}>"
