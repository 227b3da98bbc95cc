"""Headers for the services that a request calls, whichever client makes the calls."""

from collections.abc import Collection, Mapping, MutableMapping
from typing import Protocol, TypeVar

from apf_middleware.exceptions import InvalidValueError

__all__ = ["OutgoingHeaders", "OutgoingRequest", "checked_formats", "value_of", "write_headers"]


FormatT = TypeVar("FormatT", bound=str)


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


def checked_formats(written: Mapping[str, FormatT], known: Collection[FormatT]) -> dict[str, FormatT]:
    """Return the formats by the names of headers, in lower case; raise InvalidValueError unless all are ``known``."""
    found = {name.lower(): one for name, one in written.items()}
    for name, one in found.items():
        if one not in known:
            raise InvalidValueError(f"format of the header {name!r}", one, f"it must be one of {', '.join(known)}")
    return found


def value_of(headers: Mapping[str, str], name: str) -> str:
    """Return the value of the headers ``name``, in whatever case; several of them are joined with commas."""
    return ",".join(value for one, value in headers.items() if one.lower() == name)


def write_headers(request: OutgoingRequest, found: Mapping[str, str]) -> None:
    """Write the headers ``found`` into a request, instead of those that it has with these names."""
    # one at a time, because the `update` of httpx refuses baggage that isn't ASCII, even if the request has it already
    for name, value in found.items():
        request.headers[name] = value
