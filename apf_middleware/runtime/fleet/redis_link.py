"""The connections of one member to Redis, and the steps of the protocol as methods.

Redis-py repeats a command that fails, by default for about a minute. Here each command is sent once and has a short
time-out: the next report is more useful than a repetition of the last one. Commands that wait for a message have a
connection of their own.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, RedisError

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.fleet.redis_scripts import CLAIM, GRANT, LEAVE, RESIGN, SEND
from apf_middleware.runtime.fleet.timing import FleetTiming

if TYPE_CHECKING:
    from apf_middleware.runtime.fleet.redis_address import RedisAddress

__all__ = ["AT_ONCE", "STORE_ERRORS", "AllocatorState", "Claim", "RedisLink"]

AT_ONCE: Final = 1_000
"""The number of reports that are taken by one command, and of grants that are stored by one script."""

STORE_ERRORS: Final = (RedisError, OSError, TimeoutError)
"""The errors of a store that is gone, slow, or refuses a command."""

_MS: Final = 10**6
_SECOND: Final = 10**9
_KEPT_MS: Final = 30 * 24 * 3600 * 1000  # a fleet that nobody was a member of for this time is forgotten
_MOST_REPORTS: Final = 100_000


@dataclass(frozen=True, slots=True)
class AllocatorState:
    """What Redis knows of the allocator: the latest ``epoch``, whether it ``is_alive``, and its ``owner``.

    ``count`` is the number of reports that Redis has seen.
    """

    epoch: int
    is_alive: bool
    owner: str
    count: int


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a claim: the latest ``epoch``, and whether it ``is_mine`` now.

    ``expected`` are the members that may have grants, or None if Redis may have lost some.
    """

    epoch: int
    is_mine: bool
    expected: Collection[str] | None


class RedisLink:
    """The connections to Redis at ``address``, for the member of this name; its keys begin with ``prefix``."""

    def __init__(self, address: "RedisAddress", prefix: str, member: str, timing: FleetTiming) -> None:
        self._member = member
        self._prefix = prefix
        # a command must not take longer than the others wait before they begin another epoch
        self._timeout_s = timing.patience_ns / _SECOND / 2
        self._patience_ms = timing.patience_ns // _MS
        self._lease_ms = timing.lease_ns // _MS
        self._quick = self._connect(address, self._timeout_s)
        self._patient = self._connect(address, None)
        self._state, self._reports = prefix + "state", prefix + "reports"
        scripts = (self._quick.register_script(source) for source in (SEND, CLAIM, GRANT, LEAVE, RESIGN))
        self._send, self._claim, self._grant, self._leave, self._resign = scripts

    @classmethod
    def check(cls, address: "RedisAddress") -> None:
        """Raise InvalidValueError if no connection can be made from ``address``; none is opened."""
        try:
            client = cls._connect(address, None)
            if isinstance(client, Redis):
                client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        except (ValueError, TypeError, RedisError, OSError) as error:
            rule = f"redis-py can't use this address ({error})"
            raise InvalidValueError("store", str(address), rule, "Correct its query") from error

    @staticmethod
    def _connect(address: "RedisAddress", timeout_s: float | None) -> Redis | RedisCluster:
        make: Any = RedisCluster.from_url if address.is_of_cluster else Redis.from_url
        options = address.credentials()
        if not address.url.startswith("unix:"):
            options["socket_keepalive"] = True
        client: Redis | RedisCluster = make(
            address.url,
            **options,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            health_check_interval=0,
            decode_responses=False,
            client_name="apf-fleet",
        )
        return client

    async def _run(self, script: Any, keys: Sequence[str], *arguments: str | int | bytes) -> Any:  # noqa: ANN401
        async with asyncio.timeout(self._timeout_s):
            return await script(keys=keys, args=arguments)

    # As a member

    async def send(self, epoch: int, report: bytes) -> AllocatorState:
        """Send a report to the allocator of this ``epoch``, if it is the latest one and alive."""
        keys = self._state, self._reports
        known = self._member, report, epoch, self._patience_ms, _MOST_REPORTS, _KEPT_MS
        found = await self._run(self._send, keys, *known)
        with _own_answer(found):
            latest, is_alive, owner, count = found
            return AllocatorState(int(latest), bool(is_alive), owner.decode(), int(count))

    async def take_grant(self, wait_s: float) -> bytes | None:
        """Return the member's latest grant; None if there is no new one within ``wait_s``."""
        async with asyncio.timeout(wait_s + self._timeout_s):
            found: Any = await self._patient.blpop([self._inbox(self._member)], wait_s)
        return None if found is None else found[1]

    async def leave(self, message: bytes) -> None:
        """Forget the member, and send ``message`` to the allocator."""
        keys = self._state, self._reports, self._inbox(self._member)
        await self._run(self._leave, keys, self._member, message, _KEPT_MS)

    # As the allocator

    async def claim(self, epoch: int, count: int) -> Claim:
        """Begin a new epoch, unless there is a living allocator.

        ``epoch`` is the latest one that the member knows, and ``count`` the latest number of reports.
        """
        keys = self._state, self._reports
        found = await self._run(self._claim, keys, self._member, epoch, count, self._patience_ms)
        with _own_answer(found):
            latest, is_mine, is_intact, members = found
            return Claim(int(latest), bool(is_mine), {one.decode() for one in members} if is_intact else None)

    async def take_reports(self, wait_s: float) -> list[bytes]:
        """Return the messages that have been sent to the allocator; wait up to ``wait_s`` for the first one."""
        # both commands are sent together, because seats may be idle until the reports have arrived
        commands: Any = self._patient.pipeline(transaction=False)
        commands.blpop([self._reports], wait_s)
        commands.lpop(self._reports, AT_ONCE)
        async with asyncio.timeout(wait_s + self._timeout_s):
            first, others = await commands.execute()
        return [*(() if first is None else first[1:]), *(others or ())]

    async def grant(
        self, epoch: int, grants: Mapping[str, bytes], forgotten: Collection[str] = (), *, is_sure: bool
    ) -> bool:
        """Store grants, and renew the allocator's time; return False if a later epoch has begun.

        The members that are ``forgotten`` have no leases any more. The allocator ``is_sure`` if it knows all members
        that may have grants.
        """
        names = list(grants)
        first = self._state, self._reports
        for start in range(0, max(1, len(names)), AT_ONCE):
            part = names[start : start + AT_ONCE]
            keys = *first, *map(self._inbox, part)
            known = str(epoch), self._member, self._patience_ms, self._lease_ms, int(is_sure), len(forgotten)
            if not await self._run(self._grant, keys, *known, *forgotten, *(grants[name] for name in part)):
                return False
        return True

    async def resign(self, epoch: int) -> None:
        """Let another member begin an epoch at once."""
        await self._run(self._resign, (self._state,), str(epoch), self._member)

    # Connections

    def _inbox(self, member: str) -> str:
        return f"{self._prefix}to:{member}"

    async def aclose(self) -> None:
        """Close all connections."""
        for client in (self._quick, self._patient):
            await client.aclose()

    def __repr__(self) -> str:
        return f"<RedisLink of {self._member!r} at {self._prefix!r}>"


@contextmanager
def _own_answer(found: object) -> Iterator[None]:
    """Raise an error of the store if the answer isn't one of our scripts: something else may have changed the keys."""
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidResponse(f"unexpected answer {found!r}") from error
