"""Where the Redis of a fleet is, and how to log in: from the configuration, the environment and files.

A password is never a part of the configuration, so it can't get into a log or a dump with it.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from redis.credentials import CredentialProvider

from apf_middleware.config.fleet import STORE_SCHEMES, STORE_VARIABLE, FleetSettings, is_redis_url
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.flow_labels import FlowLabels

__all__ = ["Login", "RedisAddress", "resolve_address", "resolve_labels"]


_CLUSTER: Final = "+cluster://"


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """The ``url`` of a Redis server, which may contain a password, and the ``login``, if that is given apart.

    If the server ``is_of_cluster``, it names the node that has the keys.
    """

    url: str = field(repr=False)
    login: "Login | None" = None
    is_of_cluster: bool = False

    def credentials(self) -> dict[str, Any]:
        """Return the arguments of a client."""
        return {} if self.login is None else {"credential_provider": self.login}

    def __str__(self) -> str:
        return self.url.rpartition("@")[2].partition("?")[0]


class Login(CredentialProvider):
    """A user, and a password that is read again for each connection, because it may have been changed."""

    def __init__(self, user: str, password: Callable[[], str]) -> None:
        self._user = user
        self._password = password

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return the user, if there is one, and the password."""
        password = self._password()
        return (self._user, password) if self._user else (password,)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """Return the same, for clients in an event loop; the file is small."""
        return self.get_credentials()


def resolve_address(settings: FleetSettings, environment: Mapping[str, str] = os.environ) -> RedisAddress:
    """Return the address that these ``settings`` describe.

    Raises:
        InvalidValueError: a variable or a file of the settings doesn't exist, or a variable has no URL of Redis.
    """
    url = settings.store
    if url.startswith(STORE_VARIABLE):
        url = _variable("store", url.removeprefix(STORE_VARIABLE), environment)
        if not is_redis_url(url):
            rule = f"the variable must be a URL of Redis, and begin with one of {', '.join(STORE_SCHEMES)}"
            hint = "Write characters of a password such as / # ? @ as %2F %23 %3F %40, and a database as its number"
            raise InvalidValueError("fleet.store", settings.store, rule, hint)
    is_of_cluster = _CLUSTER in url
    url = url.replace(_CLUSTER, "://", 1)
    redis = settings.redis
    password = _secret("password", redis.password_file, redis.password_variable, environment)
    if password is None:
        return RedisAddress(url, is_of_cluster=is_of_cluster)
    password()  # an error at the start is better than one in a log later
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    user = unquote(user.partition(":")[0])
    return RedisAddress(urlunsplit(parts._replace(netloc=host)), Login(user, password), is_of_cluster)


def resolve_labels(settings: FleetSettings, environment: Mapping[str, str] = os.environ) -> FlowLabels:
    """Return the labels of flows in Redis; without a secret in the ``settings``, their key is the fleet's name.

    Raises:
        InvalidValueError: the variable or the file of the settings doesn't exist.
    """
    redis = settings.redis
    secret = _secret("flowKey", redis.flow_key_file, redis.flow_key_variable, environment)
    return FlowLabels(f"{settings.name}:{'' if secret is None else secret()}".encode())


def _secret(name: str, file: str, variable: str, environment: Mapping[str, str]) -> Callable[[], str] | None:
    if variable:
        return lambda: _variable(f"redis.{name}Variable", variable, environment)
    if file:
        return lambda: _first_line(name, file)
    return None


def _variable(field: str, name: str, environment: Mapping[str, str]) -> str:
    found = environment.get(name)
    if not found:
        raise InvalidValueError(f"fleet.{field}", name, "this environment variable must be set")
    return found


def _first_line(name: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        rule = f"it must be a file with the {name} ({error})"
        raise InvalidValueError(f"fleet.redis.{name}File", file, rule) from error
