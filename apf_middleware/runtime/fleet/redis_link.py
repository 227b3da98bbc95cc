"""The connections of one member to Redis, and the steps of the protocol as methods.

Each command is sent once and has a short time-out: the next report is more useful than a repetition of the last one.
Commands that wait for messages have connections of their own. After an error the connection is closed.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from redis.asyncio import Connection, Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, RedisClusterException, RedisError, ResponseError

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.messages import Grant, Report, Taken, write
from apf_middleware.fleet.standing_grant import Holding, StandingGrant
from apf_middleware.runtime.fleet.redis_pipe import RedisPipe
from apf_middleware.runtime.fleet.redis_scripts import CLAIM, GRANT, LEAVE, OUTDATED, RESIGN, SEND, TAKEN
from apf_middleware.runtime.fleet.redis_tls import SharedTlsContext
from apf_middleware.runtime.fleet.redis_wire import packed
from apf_middleware.runtime.fleet.timing import FleetTiming

if TYPE_CHECKING:
    from apf_middleware.runtime.fleet.redis_address import RedisAddress

__all__ = ["AT_ONCE", "STORE_ERRORS", "AllocatorState", "Claim", "Division", "DivisionAnswer", "RedisLink"]

AT_ONCE: Final = 1_000
"""The number of reports that are taken by one command, and of grants that are stored by one script."""

STORE_ERRORS: Final = (RedisError, RedisClusterException, OSError, TimeoutError)
"""The errors of a store that is gone, slow, or refuses a command."""

_MS: Final = 10**6
_SECOND: Final = 10**9
_KEPT_MS: Final = 30 * 24 * 3600 * 1000  # a fleet without members for this time is forgotten
_MOST_REPORTS: Final = 100_000
_WAIT_S: Final = 1.0  # for a grant, so that a connection that has been lost is noticed
_UNKNOWN: Final = 2**53  # more than any count
_MOST_UNANSWERED: Final = 8  # reports that don't wait for the answers to earlier ones

# The uses of connections
_STEPS: Final = "steps"
_GRANTS: Final = "grants"
_REPORTS: Final = "reports"


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


@dataclass(frozen=True, slots=True)
class Division:
    """What an allocator stores after a division: the ``grants`` by member, and the ``standing`` one.

    The members that are ``forgotten`` have no leases any more. The allocator ``is_sure`` if it knows all members that
    may have grants.
    """

    epoch: int
    grants: Mapping[str, Grant] = field(default_factory=dict)
    standing: StandingGrant | None = None
    forgotten: Collection[str] = ()
    is_sure: bool = False


@dataclass(frozen=True, slots=True)
class DivisionAnswer:
    """The answer to a division: the ``reports`` that wait for the next one.

    Nothing has been stored if it ``is_outdated``, for a later epoch has begun, or ``is_refused``, for the standing
    grant has come into force.
    """

    reports: list[bytes] = field(default_factory=list)
    is_outdated: bool = False
    is_refused: bool = False


class RedisLink:
    """The connections to Redis at ``address``, for the member of this name, or for an allocator in its process.

    All keys begin with ``prefix``.
    """

    def __init__(self, address: "RedisAddress", prefix: str, member: str, timing: FleetTiming) -> None:
        self._member = member
        self._prefix = prefix
        self._timeout_s = timing.timeout_ns / _SECOND
        self._opening_s = timing.opening_ns / _SECOND
        self._patience_ms = timing.patience_ns // _MS
        self._lease_ms = timing.lease_ns // _MS
        self._client = self._connect(address, self._timeout_s, self._opening_s)
        self._tls = SharedTlsContext()
        self._pipes: dict[str, RedisPipe] = {}
        self._first_count = _UNKNOWN  # of reports, that Redis has answered to the present connection
        self._round = ""
        self._rounds = 0
        self._state, self._reports = prefix + "state", prefix + "reports"
        scripts = SEND, CLAIM, GRANT, LEAVE, RESIGN
        self._loads = [packed("SCRIPT", "LOAD", script) for script in scripts]
        self._send, self._claim, self._grant, self._leave, self._resign = map(_digest, scripts)

    @classmethod
    def check(cls, address: "RedisAddress") -> None:
        """Raise InvalidValueError if no connection can be made from ``address``; none is opened."""
        try:
            client = cls._connect(address)
            if isinstance(client, Redis):
                connection: Any = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
                if address.url.startswith("rediss:"):
                    connection.ssl_context.get()  # it reads the files that the query names
        except (ValueError, TypeError, RedisError, OSError) as error:
            rule = f"redis-py can't use this address ({error})"
            raise InvalidValueError("fleet.store", str(address), rule, "Correct its query") from error

    @staticmethod
    def _connect(
        address: "RedisAddress", timeout_s: float | None = None, opening_s: float | None = None
    ) -> Redis | RedisCluster:
        make: Any = RedisCluster.from_url if address.is_of_cluster else Redis.from_url
        options = address.credentials()
        if not address.url.startswith("unix:"):
            options["socket_keepalive"] = True
        client: Redis | RedisCluster = make(
            address.url,
            **options,
            socket_timeout=opening_s,  # of the login: later commands have time-outs of their own
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            health_check_interval=0,
            protocol=2,
            client_name="apf-fleet",
        )
        return client

    # As a member

    async def send(self, epoch: int, report: Report) -> AllocatorState:
        """Send a report to the allocator of this ``epoch``, if it is the latest one and alive."""
        await self._pipe(_STEPS)  # what a former connection was told must not be sent
        (found,) = await self._run(self._sending(epoch, report))
        return self._note_state(found)

    def send_now(self, epoch: int, report: Callable[[], Report], take: Callable[[AllocatorState | None], None]) -> bool:
        """Send a report in this turn of the event loop; return False if the connection can't take it.

        ``take`` is called with the answer, or with None if there is an error instead.
        """
        pipe = self._pipes.get(_STEPS)
        if pipe is None or not pipe.is_open or pipe.unanswered >= _MOST_UNANSWERED:
            return False

        def note(replies: list[Any]) -> None:
            try:
                take(self._note_state(replies[-1]))
            except InvalidResponse:
                take(None)

        loop = asyncio.get_running_loop()

        def note_soon(replies: list[Any]) -> None:
            # an earlier report may be answered in the same turn, and its task goes on in the next one
            loop.call_soon(note, replies)

        pipe.ask(self._sending(epoch, report()), take=note_soon)
        return True

    @property
    def unanswered(self) -> int:
        """The number of steps, such as reports, without an answer."""
        pipe = self._pipes.get(_STEPS)
        return 0 if pipe is None else pipe.unanswered

    def _sending(self, epoch: int, report: Report) -> bytes:
        keys, holding = (self._state, self._reports), Holding.of(report)
        limits = self._patience_ms, _MOST_REPORTS, _KEPT_MS
        return _call(self._send, keys, self._member, write(report), epoch, *limits, *holding, self._first_count)

    def _note_state(self, found: Any) -> AllocatorState:  # noqa: ANN401 - what Redis answers
        state = _read_state(found)
        self._first_count = min(self._first_count, state.count)
        return state

    async def take_grants(self, take: Callable[[bytes], None]) -> None:
        """Call ``take`` with each new grant as soon as it has arrived, until the connection fails."""
        pipe = await self._pipe(_GRANTS)
        command = packed("BLPOP", self._inbox(self._member), _WAIT_S)
        await pipe.poll(command, lambda found: None if found is None else take(found[1]), _WAIT_S + self._timeout_s)

    async def leave(self, message: bytes) -> None:
        """Forget the member, and send ``message`` to the allocator."""
        keys = self._state, self._reports, self._inbox(self._member)
        async with asyncio.timeout(self._timeout_s):  # for a new connection, too: the process is about to end
            await self._run(_call(self._leave, keys, self._member, message, _KEPT_MS))

    # As the allocator

    async def open_for_reports(self) -> None:
        """Open the connection of an allocator, which then needs less time for its first grants."""
        await self._pipe(_REPORTS)

    async def claim(self, epoch: int, count: int, *, is_leased: bool = False) -> Claim:
        """Begin a new epoch, unless there is a living allocator.

        ``epoch`` is the latest one that the member knows, and ``count`` the latest number of reports. The fleet
        ``is_leased`` if leases of earlier epochs may hold.
        """
        await self._pipe(_STEPS)  # what a former connection was told isn't true of a new one
        keys, first = (self._state, self._reports), self._first_count if is_leased else 0
        (found,) = await self._run(_call(self._claim, keys, self._member, epoch, count, self._patience_ms, first))
        with _own_answer(found):
            latest, is_mine, is_intact, members = found
            return Claim(int(latest), bool(is_mine), {one.decode() for one in members} if is_intact else None)

    async def take_reports(self, wait_s: float) -> list[bytes]:
        """Return the messages that have been sent to the allocator; wait up to ``wait_s`` for the first one."""
        return _read_reports(await self._run(*self._taking(wait_s), use=_REPORTS, wait_s=wait_s))

    def _taking(self, wait_s: float) -> tuple[bytes, bytes]:
        # both commands are sent together, because seats may be idle until the reports have arrived
        return packed("BLPOP", self._reports, wait_s), packed("LPOP", self._reports, AT_ONCE)

    async def exchange(self, division: Division, wait_s: float = 0) -> DivisionAnswer:
        """Store the grants of a division, renew the allocator's time, and take reports as `take_reports` does.

        All commands are sent together: reports that have arrived meanwhile need not wait for an answer. If a later
        epoch has begun, the connection is closed at once: it must not take the reports for another allocator. Without
        ``wait_s`` no reports are taken.
        """
        commands = [*self._granting(division)]
        number = len(commands)
        if wait_s:
            commands += self._taking(wait_s)
        try:
            replies = await self._run(*commands, use=_REPORTS, wait_s=wait_s)
        except ResponseError as error:
            if str(error).startswith(OUTDATED):
                return DivisionAnswer(is_outdated=True)
            raise
        is_refused = any(replies[:number])
        self._round = TAKEN if is_refused else str(self._rounds)
        return DivisionAnswer(_read_reports(replies[number:]) if wait_s else [], is_refused=is_refused)

    def _granting(self, division: Division) -> Iterator[bytes]:
        self._rounds += 1
        names, known, begun = list(division.grants), self._round, str(self._rounds)
        about = division.epoch, self._member, self._patience_ms, self._lease_ms, int(division.is_sure)
        forgotten = [str(len(division.forgotten)), *division.forgotten]
        for start in range(0, max(1, len(names)), AT_ONCE):
            part = names[start : start + AT_ONCE]
            is_last = start + AT_ONCE >= len(names)
            keys = self._state, self._reports, *map(self._inbox, part)
            texts = (write(division.grants[name]) for name in part)
            standing = self._written(division) if is_last else ""
            yield _call(self._grant, keys, *about, known, begun, standing, *forgotten, *texts)
            known = begun  # if one part is refused, the others are, too

    def _written(self, division: Division) -> str:
        """Return the standing grant as `SEND` reads it; nothing if there is none."""
        standing = division.standing
        if standing is None:
            return ""
        texts = [write(one).decode() for one in (standing.grant, Taken(self._rounds))]
        found = division.epoch, self._inbox(standing.member), texts[0], self._lease_ms, texts[1], standing.givers
        return json.dumps(found)

    def note_taken(self, taken: Taken) -> bool:
        """Note that a standing grant has come into force; return False if that is known, or it was an earlier one."""
        is_news = self._round == str(taken.round)
        if is_news:
            self._round = TAKEN
        return is_news

    async def resign(self, epoch: int) -> None:
        """Let another member begin an epoch at once."""
        async with asyncio.timeout(self._timeout_s):
            await self._run(_call(self._resign, (self._state,), epoch, self._member))

    # Connections

    async def _run(self, *commands: bytes, use: str = _STEPS, wait_s: float = 0) -> list[Any]:
        """Return the replies to these commands, which may wait for messages for up to ``wait_s``."""
        pipe = await self._pipe(use)
        async with asyncio.timeout(wait_s + self._timeout_s):
            return await pipe.run(*commands)

    async def _pipe(self, use: str) -> RedisPipe:
        """Return the connection for this ``use``, and open it if needed; each use has one task at a time."""
        pipe = self._pipes.get(use)
        if pipe is None or not pipe.is_open:
            if pipe is not None:
                await self._close(pipe)
            async with asyncio.timeout(self._opening_s):
                self._pipes[use] = pipe = RedisPipe(await self._connection())
                if use == _STEPS:
                    self._first_count = _UNKNOWN
                await pipe.run(*self._loads)
        return pipe

    async def _connection(self) -> Connection:
        """Return a new connection to the server that has the keys."""
        client: Any = self._client
        if isinstance(client, Redis):
            connection: Connection = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        else:
            with _cancellations_kept():
                await client.initialize()
            node = client.get_node_from_key(self._state)
            connection = node.connection_class(**node.connection_kwargs)
        self._tls.share(connection)
        try:
            with _cancellations_kept():
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def _close(self, pipe: RedisPipe) -> None:
        await pipe.aclose()
        if not isinstance(self._client, Redis):
            await self._client.aclose()  # the keys may have moved to another node

    def _inbox(self, member: str) -> str:
        return f"{self._prefix}to:{member}"

    async def aclose(self) -> None:
        """Close all connections."""
        while self._pipes:
            await self._close(self._pipes.popitem()[1])
        await self._client.aclose()

    def __repr__(self) -> str:
        return f"<RedisLink of {self._member!r} at {self._prefix!r}>"


def _digest(script: str) -> str:
    """Return the name by which Redis knows a script."""
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


def _call(script: str, keys: Sequence[str], *arguments: str | int | bytes) -> bytes:
    """Return the command that runs a script that has been loaded."""
    return packed("EVALSHA", script, len(keys), *keys, *arguments)


def _read_state(found: Any) -> AllocatorState:  # noqa: ANN401 - what Redis answers
    with _own_answer(found):
        latest, is_alive, owner, count = found
        return AllocatorState(int(latest), bool(is_alive), owner.decode(), int(count))


def _read_reports(found: Sequence[Any]) -> list[bytes]:
    first, others = found
    return [*(() if first is None else first[1:]), *(others or ())]


@contextmanager
def _cancellations_kept() -> Iterator[None]:
    """Raise CancelledError at the end if the task has been cancelled, and redis-py has lost that.

    It uses `asyncio.wait_for`, which may lose a cancellation before Python 3.12.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    yield
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


@contextmanager
def _own_answer(found: object) -> Iterator[None]:
    """Raise an error of the store if the answer isn't one of our scripts: something else may have changed the keys."""
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidResponse(f"unexpected answer {found!r}") from error
