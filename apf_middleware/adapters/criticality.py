"""The criticality of a request, told to the services that it calls.

The event hooks are for httpx; `CriticalityHeaders.headers` is for any other client::

    criticality = CriticalityHeaders()
    client = httpx.AsyncClient(event_hooks={"request": [criticality.tell_async]})

So the requests that a batch job causes are batch work in all services, and those that a user waits for are not.
"""

from collections.abc import Mapping

from apf_middleware.criticality import CRITICALITY_FORMATS, CriticalityFormat, write_criticality
from apf_middleware.propagation.current import CURRENT_CRITICALITY
from apf_middleware.propagation.outgoing import OutgoingRequest, checked_formats, value_of, write_headers

__all__ = ["CriticalityHeaders"]


class CriticalityHeaders:
    """Write the current request's criticality into the headers of the requests that it makes.

    ``written`` are the headers by name, and their formats. A header that a request has already stays as it is, except
    that baggage gets another member.
    """

    def __init__(self, written: Mapping[str, CriticalityFormat] | None = None) -> None:
        given: Mapping[str, CriticalityFormat] = {"x-criticality": "name"} if written is None else written
        self._written = checked_formats(given, CRITICALITY_FORMATS)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the headers."""
        return tuple(self._written)

    def headers(self, present: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the headers of a call that is made now, which has those ``present`` already.

        There are none if the server of the current request knows no criticality.
        """
        criticality = CURRENT_CRITICALITY.get()
        if criticality is None:
            return {}
        found: dict[str, str] = {}
        for name, one in self._written.items():
            before = value_of(present or {}, name)
            if one == "baggage" or not before:
                found[name] = write_criticality(one, criticality, before)
        return found

    def tell(self, request: OutgoingRequest) -> None:
        """Tell the criticality with a request: a hook of `httpx.Client`."""
        write_headers(request, self.headers(request.headers))

    async def tell_async(self, request: OutgoingRequest) -> None:
        """Tell the criticality with a request: a hook of `httpx.AsyncClient`."""
        self.tell(request)

    def __repr__(self) -> str:
        return f"<CriticalityHeaders {', '.join(self._written)}>"
