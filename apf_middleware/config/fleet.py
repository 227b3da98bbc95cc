"""Settings of a fleet: the ``fleet`` of a Server document. Its members share one budget of seats."""

import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qs, urlsplit

from pydantic import Field

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.config.sockets import require_app
from apf_middleware.config.values import Nanoseconds
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.frozen import frozen

__all__ = ["STORE_SCHEMES", "STORE_VARIABLE", "FallbackSettings", "FleetSettings", "RedisSettings", "is_redis_url"]

STORE_SCHEMES: Final = ("redis://", "rediss://", "unix://", "redis+cluster://", "rediss+cluster://")
"""The beginnings of the URL of a Redis server."""

STORE_VARIABLE: Final = "env:"
"""The beginning of a store that is the URL in an environment variable."""

_PREFIX: Final = re.compile(r"[^{}\s]{1,100}")
_DATABASE: Final = re.compile(r"/?[0-9]*/?")
_MS: Final = 10**6
_LEAST_LEASES: Final = 3  # a lease outlives this number of intervals, so that one lost message doesn't end it


@frozen
class FallbackSettings(Settings):
    """The seats of a member that can't reach the others: its part of a ``share`` of all seats.

    ``members`` is the largest number of members that the fleet ever has. Their fallback seats are set aside, so a
    member may use its own without asking. Without ``members`` there are none, and requests wait.
    """

    members: Annotated[int, Field(ge=0, le=100_000)] = 0
    share: Annotated[float, Field(ge=0, le=1)] = 0.2

    def floor(self, seats: int) -> int:
        """Return the fallback seats of each member, if the fleet has this number of seats."""
        return int(seats * self.share) // self.members if self.members else 0


@frozen
class RedisSettings(Settings):
    """How a fleet uses Redis: all its keys begin with ``prefix``.

    A password is in a file or in a variable, and so is the secret with which the hashes of flows are keyed.
    """

    prefix: str = "apf"
    password_file: str = ""
    password_variable: str = ""
    flow_key_file: str = ""
    flow_key_variable: str = ""

    def rules(self) -> Iterator[Violation]:
        if not _PREFIX.fullmatch(self.prefix):
            yield Violation(("prefix",), self.prefix, "it must be 1 to 100 characters without spaces and braces")
        if self.password_file and self.password_variable:
            rule = "it can't be combined with passwordVariable"
            yield Violation(("password_file",), self.password_file, rule, "Remove one of them")
        if self.flow_key_file and self.flow_key_variable:
            rule = "it can't be combined with flowKeyVariable"
            yield Violation(("flow_key_file",), self.flow_key_file, rule, "Remove one of them")


@frozen
class FleetSettings(Settings):
    """The fleet of this ``name``, whose members meet at the ``store``.

    ``store: host`` is for the processes of one user on one host. They meet in ``directory``; by default that is a
    directory of the user (see the documentation). The members on several hosts meet at a Redis server, given by its
    URL. A member reports at each ``interval``, and its seats are leased to it for the time of a ``lease``.
    """

    store: str = "host"
    name: str = "app"
    directory: str = ""
    interval_ns: Nanoseconds = 250 * _MS
    lease_ns: Nanoseconds = 5_000 * _MS
    fallback: FallbackSettings = field(default_factory=FallbackSettings)
    redis: RedisSettings = field(default_factory=RedisSettings)

    @property
    def is_of_host(self) -> bool:
        """Whether all members are on one host."""
        return self.store == "host"

    def rules(self) -> Iterator[Violation]:
        try:
            require_app(self.name)
        except InvalidValueError as error:
            yield Violation(("name",), self.name, error.rule)
        yield from self._store_rules()
        if self.directory and not Path(self.directory).is_absolute():
            yield Violation(("directory",), self.directory, "it must be an absolute path", "Write it like /run/shop")
        if self.interval_ns < 10 * _MS:
            yield Violation(("interval_ns",), self.interval_ns, "it must be at least 10ms")
        if self.lease_ns < _LEAST_LEASES * self.interval_ns:
            rule = f"it must be at least {_LEAST_LEASES} times the interval"
            yield Violation(("lease_ns",), self.lease_ns, rule, "Otherwise one lost message would end it")

    def _store_rules(self) -> Iterator[Violation]:
        if self.is_of_host:
            if self.redis != RedisSettings():
                yield Violation(("redis",), self.redis.prefix, "it is only for a store in Redis", "Remove it")
            return
        if self.directory:
            yield Violation(("directory",), self.directory, "it is only for store: host", "Remove one of them")
        if not self.store.startswith(STORE_VARIABLE) or self.store == STORE_VARIABLE:
            yield from _url_rules(self.store)


def is_redis_url(url: str) -> bool:
    """Return whether ``url`` is that of a Redis server, without anything that redis-py would ignore or misread.

    For example, what follows a ``#`` in a password would be a fragment.
    """
    try:
        parts = urlsplit(url)
        has_place = bool(parts.netloc or parts.path) and parts.port != 0
    except ValueError:  # for example, the port isn't a number
        return False
    if not (has_place and url.startswith(STORE_SCHEMES)) or parts.fragment or "@" in parts.query:
        return False
    has_host = "@" in parts.netloc or not parts.netloc.startswith(":")
    return parts.scheme == "unix" or (has_host and bool(_DATABASE.fullmatch(parts.path)))


def _url_rules(url: str) -> Iterator[Violation]:
    if not is_redis_url(url):
        hint = "Write host, or a URL like redis://redis.internal:6379/0"
        rule = "it must be host, a URL of Redis, or env: and the name of a variable"
        yield Violation(("store",), url.rpartition("@")[2], rule, hint, is_secret=True)
        return
    parts = urlsplit(url)
    if parts.password is not None or "password" in parse_qs(parts.query):
        hint = "Use redis.passwordFile or redis.passwordVariable, or env: and the name of a variable with the URL"
        yield Violation(("store",), str(parts.hostname), "it must not contain a password", hint, is_secret=True)
