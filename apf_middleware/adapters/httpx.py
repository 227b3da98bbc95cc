"""Limits on the requests to each host at a time, for apps that call other services with httpx.

A request that will call a host waits until the host has a free place. A transport around the client's own can count the
actual calls as well: then calls of requests that didn't pass the gate count too, and a call counts until its response
has been read to the end.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from typing import Unpack

from apf_middleware.adapters.shared_places import SharedPlaces
from apf_middleware.exceptions import InvalidValueError, MissingExtraError, require_integer
from apf_middleware.gates.gate import CostOf, Gate, GateRequest, Terms, TermsGiven, unit_cost
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
    cost: CostOf = unit_cost,
    **terms: Unpack[TermsGiven],
) -> "HostGate":
    """Add a gate with the places that ``limits`` names for each host; any other host has ``otherwise`` places.

    ``host`` returns the host that a request is going to call. The gate doesn't concern a request without such a host
    (None), or a host without a limit.
    """
    gate = HostGate(gates, name, limits, otherwise, gates.terms(terms), host=host, cost=cost)
    gates.add(gate)
    return gate


class HostGate(Gate):
    """The places of each host; `transport` counts the actual calls."""

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
        super().__init__(name, terms, host, cost)
        self._otherwise = 0 if otherwise is None else require_integer("otherwise", otherwise, least=1)
        self._gates = gates
        self._limits = {
            _spelled(one_host): require_integer(f"limit of {one_host!r}", limit, least=1)
            for one_host, limit in limits.items()
        }
        self._places = SharedPlaces()
        self._out: Counter[Hashable] = Counter()

    @property
    def limit(self) -> int | None:
        """Return the limit of hosts that have no limit of their own, if there is one."""
        return self._otherwise or None

    def resize(self, limit: int) -> None:
        """Set another limit for hosts that have no limit of their own."""
        self._otherwise = require_integer("limit", limit, least=0)

    def key(self, request: GateRequest) -> str | None:
        host = super().key(request)
        if host is None:
            return None
        if not isinstance(host, str):
            raise InvalidValueError(f"host of the gate {self.name!r}", host, "it must be a string or None")
        host = _spelled(host)
        return host if host in self._limits or self._otherwise else None

    def limit_of(self, key: Hashable) -> int:
        return self._limits.get(str(key), self._otherwise)

    def used(self, key: Hashable) -> int:
        return self._places.used(key, self._out.get(key, 0))

    def is_full(self, key: Hashable) -> bool:
        return self.used(key) >= self.limit_of(key)

    def acquire(self, now: int, request: GateRequest, key: Hashable, cost: int) -> object:  # noqa: ARG002
        return self._places.acquire(key, cost, limit=self.limit_of(key), taken=self._out.get(key, 0))

    def release(self, key: Hashable, lease: object) -> None:
        self._places.release(key, lease)

    def check(self) -> None:
        self._places.check()

    def transport(self, inner: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncBaseTransport:
        """Return a transport for ``httpx.AsyncClient`` that counts the calls through ``inner``."""
        return _CountingTransport(self, inner or httpx.AsyncHTTPTransport())

    def note_out(self, host: str) -> None:
        """Count a call that goes out."""
        self._out[host] += 1
        self._places.note_use(host)

    def note_back(self, host: str) -> None:
        """Count a call that has ended, and let those requests try that wait for its host."""
        self._out[host] -= 1
        if not self._out[host]:
            del self._out[host]
        if self.parked:
            self._gates.emit(self.name, key=host)


def _spelled(host: str) -> str:
    """Return the name of a host as it is sent: in lower case, and in ASCII.

    A URL or a port would never be the host of a call, so its limit would have no effect.
    """
    if host.isascii() and not any(sign in host for sign in ":/[@"):
        return host.lower()
    try:
        spelled = httpx.URL(scheme="http", host=host).raw_host.decode("ascii")
    except httpx.InvalidURL:
        spelled = ""
    if not spelled or "%" in spelled:  # which stands for what a name can't have
        raise InvalidValueError("host", host, "it must be the name of a host", "Leave the scheme, port and path out")
    return spelled.lower()


class _CountingTransport(httpx.AsyncBaseTransport):
    """Counts a request from before it goes out until its response has been closed."""

    def __init__(self, gate: HostGate, inner: httpx.AsyncBaseTransport) -> None:
        self._gate = gate
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.raw_host.decode("ascii").lower()
        self._gate.note_out(host)
        try:
            response = await self._inner.handle_async_request(request)
            stream = response.stream
            assert isinstance(stream, httpx.AsyncByteStream), "an asynchronous transport answers with such a stream"
        except BaseException:
            self._gate.note_back(host)
            raise
        if response.is_closed:  # it has been read, such as one of a cache, so httpx doesn't close its stream
            self._gate.note_back(host)
        else:
            response.stream = _CountedStream(stream, lambda: self._gate.note_back(host))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CountedStream(httpx.AsyncByteStream):
    """A response's body that calls a function, once, when it has been closed."""

    def __init__(self, stream: httpx.AsyncByteStream, on_close: Callable[[], None]) -> None:
        self._stream = stream
        self._on_close: Callable[[], None] | None = on_close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            on_close, self._on_close = self._on_close, None
            if on_close is not None:
                on_close()
