"""A JWKS that is fetched from a URL, in a background thread.

Fetched keys stay in force while the issuer can't be reached. The set is fetched again at an interval, and earlier when
a token names an unknown key. Any client can send such a token, so there are at least ten seconds between two fetches.
Failed fetches are repeated after ten seconds, then with a delay that doubles up to the interval.

A thread ends with its fetch, so a server may fork its workers afterwards.
"""

import http.client
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final, Never

from apf_middleware.asgi.identity.keys import Keys
from apf_middleware.asgi.identity.watched import BrokenLineError

__all__ = ["MAX_BYTES", "RETRY_SECONDS", "FetchedKeys"]

MAX_BYTES: Final = 2**20
"""The maximum size of a JWKS, in bytes."""

RETRY_SECONDS: Final = 10.0
"""The minimum time between two fetches."""

_TIMEOUT: Final = 5.0  # for each step of a fetch
_DEADLINE: Final = 30.0  # for the whole fetch, so that a slow server can't occupy the thread
_log: Final = logging.getLogger(__name__)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Reject redirects: only the configuration decides where keys come from."""

    def redirect_request(self, *_told: Any) -> Never:  # noqa: ANN401 (urllib's arguments)
        raise urllib.error.URLError("it must not redirect; configure the URL to which it does")


class FetchedKeys:
    """The keys at a URL; ``keys`` is None before the first successful fetch."""

    __slots__ = (
        *("_clock", "_due", "_fresh", "_interval", "_last", "_read", "_thread", "_wait", "_wanted"),
        *("failures", "fetches", "keys", "url"),
    )

    def __init__(
        self, url: str, read: Callable[[bytes], Keys], interval: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.url = url
        self.keys: Keys | None = None
        self.fetches: int = 0
        self.failures: int = 0
        self._read = read
        self._interval = interval
        self._clock = clock
        self._wait = RETRY_SECONDS
        self._last = self._due = clock()
        self._wanted = False
        self._fresh: Keys | None = None  # written by the thread and taken over by `refresh`
        self._thread: threading.Thread | None = None
        self._start(self._last)

    def __repr__(self) -> str:
        known = "no keys yet" if self.keys is None else f"{len(self.keys)} keys"
        return f"FetchedKeys({self.url!r}, {known}, fetches={self.fetches}, failures={self.failures})"

    def want(self) -> None:
        """Request an early fetch, because a token names an unknown key."""
        self._wanted = True

    def refresh(self) -> bool:
        """Take over fetched keys, start a fetch that is due, and return whether the keys have changed."""
        fresh, self._fresh = self._fresh, None
        changed = fresh is not None and fresh != self.keys
        if fresh is not None:
            self.keys = fresh
        now = self._clock()
        due = now >= self._due or (self._wanted and now >= self._last + RETRY_SECONDS)
        if due and (self._thread is None or not self._thread.is_alive()):
            self._start(now)
        return changed

    def _start(self, now: float) -> None:
        self._last = now
        self._wanted = False
        self._due = now + self._wait
        self._thread = threading.Thread(target=self._fetch, name="apf-jwks", daemon=True)
        self._thread.start()

    def _fetch(self) -> None:
        self.fetches += 1
        try:
            keys = self._read(_downloaded(self.url))
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.failures += 1
            self._tell(error.rule if isinstance(error, BrokenLineError) else str(error))
            self._due = self._last + self._wait
            self._wait = min(2 * self._wait, max(self._interval, RETRY_SECONDS))
        else:
            self._wait = RETRY_SECONDS
            self._due = self._last + self._interval
            self._fresh = keys

    def _tell(self, why: str) -> None:
        _log.warning(
            "the keys at %s could not be fetched: %s; known keys stay in force, next try in %.0f s",
            self.url,
            why,
            self._wait,
            extra={"event": "identity-keys-unavailable", "url": self.url, "rule": why, "failures": self.failures},
        )


def _downloaded(url: str) -> bytes:
    deadline = time.monotonic() + _DEADLINE
    request = urllib.request.Request(url, headers={"accept": "application/json"})  # noqa: S310 (checked: http or https)
    found = bytearray()
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT) as response:
        while part := response.read1(65536):
            found += part
            if len(found) > MAX_BYTES:
                raise BrokenLineError(f"it must not be longer than {MAX_BYTES} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError(f"it took longer than {_DEADLINE:.0f} s")
    return bytes(found)
