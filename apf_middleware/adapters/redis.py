"""Rates, quotas and capacities that all servers share, in one Redis.

Redis decides, in one step and by its own clock. These gates are asynchronous: they are asked outside of the dispatcher,
and what came in between makes them be asked again. They need asyncio, as redis-py does.

Redis is one more thing that can be down. It has ``timeout`` seconds to answer; after that, or when it can't be reached,
``on_error`` decides: a limit that can't be kept isn't worth an outage, so by default the request passes.
"""

import asyncio
import contextlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack

from apf_middleware.adapters.lua import (
    ACQUIRE_PLACES,
    RELEASE_PLACES,
    TAKE_QUOTA,
    TAKE_TOKENS,
    UNDO_QUOTA,
    UNDO_TOKENS,
)
from apf_middleware.exceptions import InvalidValueError, require_amount, require_integer
from apf_middleware.gates.gates import Gates
from apf_middleware.gates.kinds import CostOf, KeyOf, Own, everybody, one
from apf_middleware.gates.outcomes import Park, Reject
from apf_middleware.gates.passage import GateRequest
from apf_middleware.gates.terms import TermsGiven

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["Sharing", "by_flow", "redis_capacity", "redis_quota", "redis_rate"]

_MICROSECONDS: Final = 1_000_000
_TIMEOUT: Final = 0.5
_POLL: Final = 0.01


@dataclass(frozen=True, slots=True)
class Sharing:
    """How servers share: they must agree on ``prefix`` and on the gate's name."""

    prefix: str = "apf"
    timeout: float = _TIMEOUT

    def __post_init__(self) -> None:
        if require_amount("timeout", self.timeout) <= 0:
            raise InvalidValueError("timeout", self.timeout, "it must be more than 0 seconds")


_TOGETHER: Final = Sharing()


def by_flow(request: GateRequest) -> Hashable:
    """A key for each flow."""
    return request.flow


def redis_rate(
    gates: Gates,
    name: str,
    redis: "Redis",
    *,
    rate: float,
    burst: int,
    key: KeyOf = by_flow,
    cost: CostOf = one,
    sharing: Sharing = _TOGETHER,
    **terms: Unpack[TermsGiven],
) -> None:
    """``rate`` a second and ``burst`` at once, of each key; who would have to wait too long gets 429."""
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
    cost: CostOf = one,
    sharing: Sharing = _TOGETHER,
    **terms: Unpack[TermsGiven],
) -> None:
    """``limit`` in ``per`` seconds from the first one on, of each key; who would have to wait too long gets 429."""
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
    key: KeyOf = everybody,
    cost: CostOf = one,
    sharing: Sharing = _TOGETHER,
    **terms: Unpack[TermsGiven],
) -> None:
    """At most ``limit`` at a time, of each key, on all servers together.

    Nobody can tell when a server has died with places in its hands, so a place that hasn't been given back after
    ``hold`` seconds is free. Choose more than the longest request takes. That another server gives one back isn't told,
    so the gate looks again after pauses.
    """
    require_integer("limit", limit, least=1)
    if require_amount("hold", hold) <= 0:
        raise InvalidValueError("hold", hold, "it must be more than 0 seconds")
    _add(gates, _Places(name, redis, sharing, key, cost, gates=gates, limit=limit, hold=hold), {"poll": _POLL, **terms})


def _add(gates: Gates, gate: "_InRedis", terms: TermsGiven) -> None:
    gates.add(Own(gate, gates.terms(terms)))


class _InRedis(ABC):
    """What they have in common. They are gates as an app would write them (see `OwnGate`)."""

    def __init__(self, name: str, redis: "Redis", sharing: Sharing, key: KeyOf, cost: CostOf) -> None:
        self.name = name
        self.key = key
        self.cost = cost
        self._redis = redis
        self._sharing = sharing
        self._errands: set[asyncio.Task[None]] = set()

    def _place(self, key: Hashable) -> str:
        return f"{self._sharing.prefix}:{self.name}:{key}"

    async def _run(self, script: Any, key: Hashable, *arguments: object) -> Any:  # noqa: ANN401 - what it returns
        async with asyncio.timeout(self._sharing.timeout):
            return await script(keys=[self._place(key)], args=list(arguments))

    @abstractmethod
    async def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object:  # noqa: ANN401
        """What a request gets, or why it doesn't."""

    def release(self, lease: Any) -> None:  # noqa: ANN401, B027 - most have nothing to do
        """What has been used is used."""

    def _later(self, errand: Coroutine[Any, Any, object]) -> None:
        """Tell Redis, without anybody waiting for it."""
        task = asyncio.get_running_loop().create_task(self._tell(errand), name=f"apf: give back to {self.name}")
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _tell(self, errand: Coroutine[Any, Any, object]) -> None:
        """If Redis can't be told, what wasn't given back comes free with time."""
        with contextlib.suppress(Exception):
            await errand


class _Rate(_InRedis):
    """A token bucket."""

    def __init__(
        self, name: str, redis: "Redis", sharing: Sharing, key: KeyOf, cost: CostOf, *, rate: float, burst: int
    ) -> None:
        super().__init__(name, redis, sharing, key, cost)
        self._per_token = _MICROSECONDS / rate
        self._burst = burst
        self._take = redis.register_script(TAKE_TOKENS)
        self._undo = redis.register_script(UNDO_TOKENS)

    async def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object:  # noqa: ANN401, ARG002
        if cost > self._burst:
            return Reject()
        wait = await self._run(self._take, key, self._per_token, self._burst, cost)
        return Park(retry_in=wait / _MICROSECONDS) if wait else (key, cost)

    def undo(self, lease: tuple[Hashable, int]) -> None:
        """Another gate has stopped the request: it hasn't used what it took."""
        key, cost = lease
        self._later(self._run(self._undo, key, self._per_token, cost))


class _Quota(_InRedis):
    """So many in a window of time, which begins with the first one."""

    def __init__(
        self, name: str, redis: "Redis", sharing: Sharing, key: KeyOf, cost: CostOf, *, limit: int, per: float
    ) -> None:
        super().__init__(name, redis, sharing, key, cost)
        self._limit = limit
        self._window = int(per * _MICROSECONDS)
        self._take = redis.register_script(TAKE_QUOTA)
        self._undo = redis.register_script(UNDO_QUOTA)

    async def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object:  # noqa: ANN401, ARG002
        if cost > self._limit:
            return Reject()
        wait, window = await self._run(self._take, key, self._limit, self._window, cost)
        return Park(retry_in=wait / _MICROSECONDS) if wait else (key, cost, window)

    def undo(self, lease: tuple[Hashable, int, bytes | str]) -> None:
        """Another gate has stopped the request; if its window is over, there is nothing to give back."""
        key, cost, window = lease
        self._later(self._run(self._undo, key, window, cost))


class _Places(_InRedis):
    """Places that are held for the time of a request."""

    def __init__(
        self,
        name: str,
        redis: "Redis",
        sharing: Sharing,
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
        self._hold = int(hold * _MICROSECONDS)
        self._acquire = redis.register_script(ACQUIRE_PLACES)
        self._release = redis.register_script(RELEASE_PLACES)

    async def try_acquire(self, request: GateRequest, key: Any, cost: int) -> object:  # noqa: ANN401, ARG002
        if cost > self._limit:
            return Reject()
        lease = uuid.uuid4().hex
        places = [f"{lease}:{number}" for number in range(cost)]
        taken = await self._run(self._acquire, key, self._limit, self._hold, *places)
        return (key, places) if taken else Park(penalty=False)

    def release(self, lease: tuple[Hashable, list[str]]) -> None:
        self._later(self._give_back(*lease))

    async def _give_back(self, key: Hashable, places: list[str]) -> None:
        """First the state, then the event: when the request ended, Redis didn't know yet."""
        await self._run(self._release, key, *places)
        self._gates.emit(self.name, key)
