"""Rates, quotas and capacities that all servers share, in one Redis.

Redis decides, in one step and by its own clock. These gates are asynchronous: they are asked outside of the dispatcher,
and asked again if something has happened meanwhile. They need asyncio, as redis-py does.

Redis has ``timeout`` seconds to answer. After that, or when Redis can't be reached, ``on_error`` decides: by default
the request passes, because a failure of the limit should not cause an outage of the app. Places that were taken are
given back when Redis can be reached again.
"""

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

from apf_middleware.adapters.lua import (
    ACQUIRE_PLACES,
    RELEASE_PLACES,
    TAKE_QUOTA,
    TAKE_TOKENS,
    UNDO_QUOTA,
    UNDO_TOKENS,
    WITHDRAW_PLACES,
)
from apf_middleware.adapters.redis_connections import NotSentError, RedisConnections, RedisSharing
from apf_middleware.adapters.redis_releases import PendingRelease, PendingReleases
from apf_middleware.exceptions import InvalidValueError, require_amount, require_integer
from apf_middleware.gates.gate import CostOf, GateRequest, KeyOf, Park, Reject, TermsGiven, shared_key, unit_cost
from apf_middleware.gates.kinds import CustomGate
from apf_middleware.gates.registry import Gates

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisSharing", "by_flow", "redis_capacity", "redis_quota", "redis_rate"]

_MICROSECONDS: Final = 1_000_000
_POLL: Final = 0.01
_IN_NAMES: Final = str.maketrans({"%": "%25", ":": "%3A", "{": "%7B", "}": "%7D"})
_IN_KEYS: Final = str.maketrans({"%": "%25", ":": "%3A", ",": "%2C", "(": "%28", ")": "%29"})


_TOGETHER: Final = RedisSharing()


def by_flow(request: GateRequest) -> Hashable:
    """Return one key for each flow; flows of different schemas are different, also if their names are equal."""
    return request.schema, request.flow


def redis_rate(
    gates: Gates,
    name: str,
    redis: "Redis",
    *,
    rate: float,
    burst: int,
    key: KeyOf = by_flow,
    cost: CostOf = unit_cost,
    sharing: RedisSharing = _TOGETHER,
    **terms: Unpack[TermsGiven],
) -> None:
    """Add a token bucket for each key: ``rate`` tokens a second, at most ``burst``. Rejections have status 429."""
    if require_amount("rate", rate) <= 0:
        raise InvalidValueError("rate", rate, "it must be more than 0 a second")
    require_integer("burst", burst, least=1)
    _add(gates, _Rate(name, redis, sharing, key, cost, rate=rate, burst=burst), {"status": 429, **terms})


def redis_quota(
    gates: Gates,
    name: str,
    redis: "Redis",
    *,
    limit: int,
    per: float,
    key: KeyOf = by_flow,
    cost: CostOf = unit_cost,
    sharing: RedisSharing = _TOGETHER,
    **terms: Unpack[TermsGiven],
) -> None:
    """Add a gate by which the requests of each key may cost ``limit`` in each window of ``per`` seconds.

    Rejections have status 429.
    """
    require_integer("limit", limit, least=1)
    if require_amount("per", per) <= 0:
        raise InvalidValueError("per", per, "it must be more than 0 seconds")
    _add(gates, _Quota(name, redis, sharing, key, cost, limit=limit, per=per), {"status": 429, **terms})


def redis_capacity(
    gates: Gates,
    name: str,
    redis: "Redis",
    *,
    limit: int,
    hold: float,
    key: KeyOf = shared_key,
    cost: CostOf = unit_cost,
    sharing: RedisSharing = _TOGETHER,
    **terms: Unpack[TermsGiven],
) -> None:
    """Add a gate with ``limit`` places for each key, which all servers share; a request takes ``cost`` of them.

    If a server dies, its places come free after ``hold`` seconds; choose more than the longest request takes. There is
    no event for a place that another server gives back, so the gate asks again after pauses.
    """
    require_integer("limit", limit, least=1)
    if require_amount("hold", hold) <= 0:
        raise InvalidValueError("hold", hold, "it must be more than 0 seconds")
    _add(gates, _Places(name, redis, sharing, key, cost, gates=gates, limit=limit, hold=hold), {"poll": _POLL, **terms})


def _add(gates: Gates, gate: "_InRedis", terms: TermsGiven) -> None:
    gates.add(CustomGate(gate, gates.terms(terms)))


class _InRedis(ABC):
    """A gate in Redis, with the members that `OwnGate` asks for."""

    def __init__(self, name: str, redis: "Redis", sharing: RedisSharing, key: KeyOf, cost: CostOf) -> None:
        self.name = name
        self.key = key
        self.cost = cost
        self._prefix = sharing.prefix
        self._connections = RedisConnections(redis, sharing)
        self._releases = PendingReleases(name, sharing.connections)

    def _place(self, key: Hashable) -> str:
        # The parts after the prefix have no colons, so no two gates have a place in common, also if one prefix begins
        # with the other one. Without braces in the name, no gate has a key of a fleet either.
        return f"{self._prefix}:{self.name.translate(_IN_NAMES)}:{_written(key)}"

    def _ask(self, script: Any, key: Hashable, *arguments: Hashable) -> Awaitable[Any]:  # noqa: ANN401
        return self._connections.ask(script, self._place(key), *arguments)

    def _sender(self, script: Any, key: Hashable, *arguments: Hashable) -> partial[Coroutine[Any, Any, Any]]:  # noqa: ANN401
        return partial(self._connections.give_back, script, self._place(key), *arguments)

    @abstractmethod
    async def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object:  # noqa: ANN401
        """Return a lease, `Park` or `Reject`."""

    def release(self, lease: Any) -> None:  # noqa: ANN401, B027 - most have nothing to do
        """Do nothing: a request doesn't return the tokens that it has used."""

    async def aclose(self) -> None:
        """Give back the remaining leases, for a bounded time, and close the connections."""
        await self._releases.aclose()
        await self._connections.aclose()


def _written(key: Hashable) -> str:
    """Return a text without colons that no other key has: ``a,b`` for a tuple of two strings."""
    if isinstance(key, tuple) and len(key) > 1:
        return ",".join(map(_written_part, key))
    return _written_part(key)


def _written_part(part: Hashable) -> str:
    if isinstance(part, str):
        return part.translate(_IN_KEYS)
    if isinstance(part, tuple):
        # a comma after each one, or the tuples of nothing and of an empty string would be written alike
        return f"({''.join(f'{_written_part(one)},' for one in part)})"
    return f"({str(part).translate(_IN_KEYS)})"


class _Rate(_InRedis):
    """A token bucket."""

    def __init__(
        self, name: str, redis: "Redis", sharing: RedisSharing, key: KeyOf, cost: CostOf, *, rate: float, burst: int
    ) -> None:
        super().__init__(name, redis, sharing, key, cost)
        # Not rounded: with whole microseconds per token, a rate of 300,000 would become 333,333.
        self._per_token = _MICROSECONDS / rate
        self._burst = burst
        self._take = self._connections.script(TAKE_TOKENS)
        self._undo = self._connections.script(UNDO_TOKENS)

    async def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object:  # noqa: ANN401, ARG002
        if cost > self._burst:
            return Reject()
        wait = await self._ask(self._take, key, self._per_token, self._burst, cost)
        return Park(retry_in=wait / _MICROSECONDS) if wait else (key, cost)

    def undo(self, lease: tuple[Hashable, int]) -> None:
        """Give back the unused tokens of a request that another gate has stopped.

        The script is sent only once: if only its answer was lost, a second one would give the tokens back twice. Tokens
        that aren't given back refill with time.
        """
        key, cost = lease
        self._releases.add(PendingRelease(self._sender(self._undo, key, self._per_token, cost)))


class _Quota(_InRedis):
    """A limited number of requests in a window of time, which begins with the first one."""

    def __init__(
        self, name: str, redis: "Redis", sharing: RedisSharing, key: KeyOf, cost: CostOf, *, limit: int, per: float
    ) -> None:
        super().__init__(name, redis, sharing, key, cost)
        self._limit = limit
        self._window = int(per * _MICROSECONDS)
        self._take = self._connections.script(TAKE_QUOTA)
        self._undo = self._connections.script(UNDO_QUOTA)

    async def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object:  # noqa: ANN401, ARG002
        if cost > self._limit:
            return Reject()
        wait, window = await self._ask(self._take, key, self._limit, self._window, cost)
        return Park(retry_in=wait / _MICROSECONDS) if wait else (key, cost, window)

    def undo(self, lease: tuple[Hashable, int, bytes | str]) -> None:
        """Give back the unused places of a request, unless their window is over; as with a rate, this is sent once."""
        key, cost, window = lease
        self._releases.add(PendingRelease(self._sender(self._undo, key, window, cost)))


class _Places(_InRedis):
    """Places that are held for the time of a request."""

    def __init__(
        self,
        name: str,
        redis: "Redis",
        sharing: RedisSharing,
        key: KeyOf,
        cost: CostOf,
        *,
        gates: Gates,
        limit: int,
        hold: float,
    ) -> None:
        super().__init__(name, redis, sharing, key, cost)
        self._gates = gates
        self._limit = limit
        self._hold = hold
        self._acquire = self._connections.script(ACQUIRE_PLACES)
        self._release = self._connections.script(RELEASE_PLACES)
        self._withdraw = self._connections.script(WITHDRAW_PLACES)

    async def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object:  # noqa: ANN401, ARG002
        if cost > self._limit:
            return Reject()
        lease = uuid.uuid4().hex
        # a place for each unit of the cost, because Redis counts the members of the set
        places = [f"{lease}:{number}" for number in range(cost)]
        loop = asyncio.get_running_loop()
        try:
            taken = await self._ask(self._acquire, key, self._limit, self._hold_us, *places)
        except NotSentError:
            # nothing was taken, so there is nothing to withdraw
            raise
        except (Exception, asyncio.CancelledError):
            # The answer is lost, or isn't awaited any longer. Redis may have given the places or may do so later.
            withdraw = self._sender(self._withdraw, key, self._hold_us, *places)
            self._give_back(key, withdraw, loop.time(), is_withdrawal=True)
            raise
        return (key, places, loop.time()) if taken else Park(penalty=False)

    @property
    def _hold_us(self) -> int:
        return int(self._hold * _MICROSECONDS)

    def release(self, lease: tuple[Hashable, list[str], float]) -> None:
        key, places, since = lease
        self._give_back(key, self._sender(self._release, key, *places), since)

    def _give_back(
        self, key: Hashable, send: partial[Coroutine[Any, Any, Any]], since: float, *, is_withdrawal: bool = False
    ) -> None:
        """Give a lease back, and emit the event only afterwards, because Redis counts the lease until then."""
        then = partial(self._gates.emit, self.name, key)
        self._releases.add(PendingRelease(send, since + self._hold, then, is_withdrawal))
