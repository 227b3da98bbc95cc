"""A request's headers, in whichever legal form a server gives them.

The ASGI specification allows any iterable of two-item iterables. Nearly all servers give a list of tuples; some
(Mangum) give lists of two, and a scope may have no headers at all.
"""

from collections.abc import Iterable

from starlette.types import Scope

__all__ = ["headers_of"]


def headers_of(scope: Scope) -> Iterable[tuple[bytes, bytes]]:
    """Return names and values, to be unpacked, as often as is needed.

    Headers that can be read once only are replaced by a list in the scope, for the app.
    """
    headers = scope.get("headers")
    if headers is None:
        return ()
    if not isinstance(headers, list | tuple):
        headers = scope["headers"] = [pair if isinstance(pair, list | tuple) else tuple(pair) for pair in headers]
    found: Iterable[tuple[bytes, bytes]] = headers
    return found
