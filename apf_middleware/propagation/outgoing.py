"""What is told to the services that a request calls, whatever client makes the calls."""

from collections.abc import Mapping, MutableMapping
from typing import Protocol

__all__ = ["OutgoingHeaders", "OutgoingRequest"]


class OutgoingRequest(Protocol):
    """A request of an HTTP client that is about to be sent."""

    @property
    def headers(self) -> MutableMapping[str, str]:
        """The headers, which can be changed."""
        ...


class OutgoingHeaders(Protocol):
    """Headers that tell something about the current request to the services that it calls."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all headers that there may be."""
        ...

    def headers(self, present: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the headers of a call that is made now, which has those ``present`` already."""
        ...

    def tell(self, request: OutgoingRequest) -> None:
        """Write the headers into a request."""
        ...
