"""What is told to the services that a request calls, whatever client makes the calls."""

from collections.abc import Mapping, MutableMapping
from typing import Protocol

__all__ = ["OutgoingHeaders", "OutgoingRequest", "value_of", "write_headers"]


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


def value_of(headers: Mapping[str, str], name: str) -> str:
    """Return the value of the headers ``name``, in whatever case; several of them are joined with commas."""
    return ",".join(value for one, value in headers.items() if one.lower() == name)


def write_headers(request: OutgoingRequest, found: Mapping[str, str]) -> None:
    """Write the headers ``found`` into a request, instead of those that it has with these names."""
    # one at a time, because the `update` of httpx refuses baggage that isn't ASCII, even if the request has it already
    for name, value in found.items():
        request.headers[name] = value
