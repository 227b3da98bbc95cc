"""Estimates that are declared: by the configuration, by a trusted caller, or by a function of the app.

Clients write headers, query parameters and bodies, and a client gains if it understates the cost of its request. Only
callers that are named as trusted are therefore believed, within bounds. A value that can't be parsed counts as absent.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import ClassVar, Final, Literal

from apf_middleware.classification import Classification, Identity, RequestDigest
from apf_middleware.estimation.base import ANYTHING, ONE_SEAT, STEADY, Dependence, plain_work
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Work
from apf_middleware.frozen import frozen

__all__ = ["MOST_SEATS", "Answer", "Computed", "Constant", "Declared", "Trust", "require_most_seats"]

MOST_SEATS: Final = 10_000
"""The largest number of seats that can be configured for one request."""

_MOST_DIGITS: Final = 18  # a number with so many digits fits into 64 bits
_MOST: Final = 10**_MOST_DIGITS  # counts for larger numbers, so that these don't understate the cost

_DEPENDENCES: Final = {"header": None, "query": Dependence(query=True), "body": Dependence(body=True)}

Answer = int | Work | None
"""The result of a function: seats, work, or None for the default."""


def require_most_seats(value: object) -> int:
    """Return the value of ``most_seats``, or raise InvalidValueError when one request can't have so many seats."""
    return require_integer("most_seats", value, least=1, most=MOST_SEATS)


@frozen
class Constant:
    """An estimator with the same work for every request."""

    work: Work

    dependence: ClassVar[Dependence] = STEADY

    def __post_init__(self) -> None:
        if not isinstance(self.work, Work):
            raise InvalidValueError("work", self.work, "it must be Work", "Write Work(seats=3)")

    def __call__(self, digest: RequestDigest, classification: Classification) -> Work:  # noqa: ARG002
        return self.work


@frozen
class Trust:
    """The callers that are trusted: by user or group (the user ``*`` means all), or by client address."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def __post_init__(self) -> None:
        if not (self.users or self.groups or self.networks):
            hint = "Name users, groups or networks; the user '*' means all"
            raise InvalidValueError("users", (), "trusted callers must be named", hint)

    def covers(self, digest: RequestDigest) -> bool:
        """Return whether this caller is trusted."""
        return self._names(digest.identity) or (bool(self.networks) and self._contains(digest.client_address))

    def _names(self, identity: Identity) -> bool:
        users = self.users
        return identity.name in users or "*" in users or not self.groups.isdisjoint(identity.groups)

    def _contains(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        # A socket for both versions reports IPv4 clients in this form.
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self.networks)


class Declared:
    """An estimator that reads a number from a header, query parameter or JSON body, if ``trust`` covers the caller.

    The name of a body's field may be a path: ``options.max_tokens``. The request gets one seat for each
    ``per_seat`` of the number (1000 tokens, say), at least one and at most ``most_seats``. Without a number, with a
    malformed one, and from other callers, it gets ``otherwise``.
    """

    def __init__(
        self,
        place: Literal["header", "query", "body"],
        name: str,
        trust: Trust,
        *,
        per_seat: int = 1,
        most_seats: int = 10,
        otherwise: Work = ONE_SEAT,
    ) -> None:
        if place not in _DEPENDENCES:
            raise InvalidValueError("place", place, "it must be header, query or body")
        if not name:
            raise InvalidValueError("name", name, f"it must name the {place} to read")
        self.name: str = name.lower() if place == "header" else name
        self.trust: Trust = trust
        self.per_seat: int = require_integer("per_seat", per_seat, least=1)
        self.most_seats: int = require_most_seats(most_seats)
        self.otherwise: Work = otherwise
        self._place = place
        self.dependence: Dependence = _DEPENDENCES[place] or Dependence(frozenset({self.name}))

    def __call__(self, digest: RequestDigest, classification: Classification) -> Work:  # noqa: ARG002
        value = self._value(digest)
        if value is None or not self.trust.covers(digest):
            return self.otherwise
        number = _number(value)
        if number is None:
            return self.otherwise
        seats = -(-number // self.per_seat) or 1  # rounded up: a part of a seat is a seat
        return plain_work(min(seats, self.most_seats))

    def _value(self, digest: RequestDigest) -> object:
        if self._place == "body":
            return _field(digest.body, self.name)
        return (digest.query if self._place == "query" else digest.headers).get(self.name)

    def wants_body(self, digest: RequestDigest) -> bool:
        """Return whether the body of this request must be read: only if its caller is trusted."""
        return self._place == "body" and self.trust.covers(digest)

    def __repr__(self) -> str:
        return f"<Declared by {self._place} {self.name!r}: up to {self.most_seats} seats>"


def _number(value: object) -> int | None:
    """Return the number that a string of digits or a JSON number stands for; None if it is malformed."""
    if isinstance(value, str):
        text = value.strip(" \t")
        if not (text.isascii() and text.isdigit()):
            return None
        digits = text.lstrip("0") or "0"
        return int(digits) if len(digits) <= _MOST_DIGITS else _MOST
    # not isinstance, because bool is a subclass of int
    return min(value, _MOST) if type(value) is int and value >= 0 else None


def _field(body: Mapping[str, object], name: str) -> object:
    """Return the field of this name, or the one to which a path of names leads."""
    found: object = body
    for step in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found


class Computed:
    """An estimator that calls a function of the app, which may be asynchronous; None means ``otherwise``.

    A number of seats is limited to ``most_seats``; Work is used as it is. Exceptions of the function are not caught: a
    defect there is an error of the server, and so is a result of another type.
    """

    dependence: ClassVar[Dependence] = ANYTHING

    def __init__(
        self,
        function: Callable[[RequestDigest, Classification], Answer | Awaitable[Answer]],
        *,
        most_seats: int = 10,
        otherwise: Work = ONE_SEAT,
    ) -> None:
        if not callable(function):
            raise InvalidValueError("function", function, "it must be callable")
        self._function = function
        self.most_seats: int = require_most_seats(most_seats)
        self.otherwise: Work = otherwise

    def __call__(self, digest: RequestDigest, classification: Classification) -> Work | Awaitable[Work]:
        answer = self._function(digest, classification)
        if not isinstance(answer, int | Work) and inspect.isawaitable(answer):  # the first check is cheaper
            return self._awaited(answer)
        return self._work(answer)

    async def _awaited(self, answer: Awaitable[Answer]) -> Work:
        return self._work(await answer)

    def _work(self, answer: object) -> Work:
        if type(answer) is int and answer > 0:
            return plain_work(min(answer, self.most_seats))
        if isinstance(answer, Work):
            return answer
        if answer is None:
            return self.otherwise
        rule = "it must be seats (an integer of at least 1), Work or None"
        raise InvalidValueError(f"the result of {self._function!r}", answer, rule)

    def __repr__(self) -> str:
        return f"Computed({self._function!r}, most_seats={self.most_seats})"
