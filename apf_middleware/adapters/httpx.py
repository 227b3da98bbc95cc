"""So many requests to each host at a time, where an app asks other services with httpx.

A request of ours that is going to ask a host waits until it may. What really goes out can be counted as well, by a
transport around the client's own: then requests that didn't come through the gate count too, and so does a response
that isn't read to its end yet.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from typing import Unpack

from apf_middleware.adapters.shared import SharedCapacity
from apf_middleware.exceptions import MissingExtraError, require_integer
from apf_middleware.gates.gate import CostOf, GateRequest, Terms, TermsGiven, one
from apf_middleware.gates.registry import Gates

try:
    import httpx
except ImportError:
    raise MissingExtraError("httpx", "httpx") from None

__all__ = ["HostGate", "HostOf", "host_gate"]

HostOf = Callable[[GateRequest], str | None]


def host_gate(
    gates: Gates,
    name: str,
    limits: Mapping[str, int],
    *,
    host: HostOf,
    otherwise: int | None = None,
    cost: CostOf = one,
    **terms: Unpack[TermsGiven],
) -> "HostGate":
    """A gate with so many places for each host, and ``otherwise`` for those that ``limits`` doesn't name.

    ``host`` tells which one a request is going to ask; None means none, and the gate doesn't concern it, nor where a
    host has no limit.
    """
    gate = HostGate(gates, name, limits, otherwise, gates.terms(terms), host=host, cost=cost)
    gates.add(gate)
    return gate


class HostGate(SharedCapacity):
    """Places of each host; see `transport` to have everything counted that goes out."""

    kind = "httpx"

    def __init__(
        self,
        gates: Gates,
        name: str,
        limits: Mapping[str, int],
        otherwise: int | None,
        terms: Terms,
        *,
        host: HostOf,
        cost: CostOf,
    ) -> None:
        least = 0 if otherwise is None else require_integer("otherwise", otherwise, least=1)
        super().__init__(name, least, terms, host, cost)
        self._gates = gates
        self._limits = {
            one_host.lower(): require_integer(f"limit of {one_host!r}", limit, least=1)
            for one_host, limit in limits.items()
        }
        self._out: Counter[Hashable] = Counter()

    def key(self, request: GateRequest) -> str | None:
        host = self._key(request)
        if not isinstance(host, str):
            return None
        host = host.lower()
        return host if host in self._limits or self._limit else None

    def limit_of(self, key: Hashable) -> int:
        return self._limits.get(str(key), self._limit)

    def taken(self, key: Hashable) -> int:
        return self._out.get(key, 0)

    def transport(self, inner: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncBaseTransport:
        """For ``httpx.AsyncClient(transport=…)``; counts what goes out through ``inner``."""
        return _CountingTransport(self, inner or httpx.AsyncHTTPTransport())

    def note_out(self, host: str) -> None:
        self._out[host] += 1
        self.note_use(host)

    def note_back(self, host: str) -> None:
        self._out[host] -= 1
        if not self._out[host]:
            del self._out[host]
        if self.parked:
            self._gates.emit(self.name, key=host)


class _CountingTransport(httpx.AsyncBaseTransport):
    """Counts a request from before it goes out until its response has been closed."""

    def __init__(self, gate: HostGate, inner: httpx.AsyncBaseTransport) -> None:
        self._gate = gate
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host.lower()
        self._gate.note_out(host)
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException:
            self._gate.note_back(host)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream), (
            "an asynchronous transport answers with such a stream"
        )
        response.stream = _CountedStream(response.stream, lambda: self._gate.note_back(host))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CountedStream(httpx.AsyncByteStream):
    """A response's body that tells, once, when it has been closed."""

    def __init__(self, stream: httpx.AsyncByteStream, tell: Callable[[], None]) -> None:
        self._stream = stream
        self._tell: Callable[[], None] | None = tell

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            tell, self._tell = self._tell, None
            if tell is not None:
                tell()
