"""Estimates that somebody tells: the configuration, a trusted caller, or a function of the app's own.

A header, a query parameter or a field of a body is the client's to write, and who understates what a request takes
gains by it. So only callers who are named are believed, and they too within bounds. What can't be read counts as
nothing told.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal

from apf_middleware.classification import Classification, Identity, RequestDigest
from apf_middleware.estimation.base import ANYTHING, ONE_SEAT, STEADY, Dependence, plain_work
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing import Work

__all__ = ["MOST_SEATS", "Answer", "Claimed", "ClaimedSnapshot", "Computed", "Constant", "Trust", "require_seats"]

MOST_SEATS: Final = 10_000
"""Nobody can allow one request more seats than this."""

_LONGEST: Final = 18
"""Digits; what is longer is nobody's number of anything."""

_DEPENDENCES: Final = {"header": None, "query": Dependence(query=True), "body": Dependence(body=True)}

Answer = int | Work | None
"""What a function may answer: seats, work, or None for whatever is usual."""


def require_seats(name: str, value: object) -> int:
    """``value`` as it came, or an InvalidValueError when one request can't have so many seats."""
    return require_integer(name, value, least=1, most=MOST_SEATS)


class Constant:
    """The same for every request."""

    __slots__ = ("work",)

    dependence = STEADY

    def __init__(self, work: Work) -> None:
        if not isinstance(work, Work):
            raise InvalidValueError("work", work, "it must be Work", "Write Work(seats=3)")
        self.work: Work = work

    def __call__(self, digest: RequestDigest, classification: Classification) -> Work:  # noqa: ARG002
        return self.work

    def __repr__(self) -> str:
        return f"Constant({self.work})"


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose word is believed: that of users and groups by name (``*`` is everybody), and of client addresses."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def __post_init__(self) -> None:
        if not (self.users or self.groups or self.networks):
            hint = "Name users, groups or networks; the user '*' is everybody"
            raise InvalidValueError("users", (), "it must be told whose word is believed", hint)

    def covers(self, digest: RequestDigest) -> bool:
        """Whether this caller is believed."""
        return self._names(digest.identity) or (bool(self.networks) and self._contains(digest.client_address))

    def _names(self, identity: Identity) -> bool:
        users = self.users
        return identity.name in users or "*" in users or not self.groups.isdisjoint(identity.groups)

    def _contains(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class ClaimedSnapshot:
    """How many estimates were taken from claims, from claims beyond the bound, and what was passed over and why."""

    believed: int
    bounded: int
    malformed: int
    untrusted: int


class Claimed:
    """Seats by a number in a header, query parameter or field of a JSON body, of those whom ``trust`` covers.

    A field's name may lead into objects: ``options.max_tokens``.

    One seat for each ``per_seat`` that it says, say 1000 for tokens; at least one and at most ``most_seats``. Without
    a number, with one that can't be read, and from others: ``otherwise``.
    """

    __slots__ = (
        "_place",
        "believed",
        "bounded",
        "dependence",
        "malformed",
        "most_seats",
        "name",
        "otherwise",
        "per_seat",
        "trust",
        "untrusted",
    )

    believed: int
    bounded: int
    malformed: int
    untrusted: int

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
            raise InvalidValueError("name", name, f"it must name the {place} that tells")
        self.name: str = name.lower() if place == "header" else name
        self.trust: Trust = trust
        self.per_seat: int = require_integer("per_seat", per_seat, least=1)
        self.most_seats: int = require_seats("most_seats", most_seats)
        self.otherwise: Work = otherwise
        self._place = place
        self.dependence: Dependence = _DEPENDENCES[place] or Dependence(frozenset({self.name}))
        self.believed = self.bounded = self.malformed = self.untrusted = 0

    def __call__(self, digest: RequestDigest, classification: Classification) -> Work:  # noqa: ARG002
        told = self._told(digest)
        if told is None:
            return self.otherwise
        if not self.trust.covers(digest):
            self.untrusted += 1
            return self.otherwise
        number = _number(told)
        if number is None:
            self.malformed += 1
            return self.otherwise
        seats = -(-number // self.per_seat) or 1
        self.believed += 1
        if seats > self.most_seats:
            self.bounded += 1
            seats = self.most_seats
        return plain_work(seats)

    def _told(self, digest: RequestDigest) -> object:
        if self._place == "body":
            return _field(digest.body, self.name)
        return (digest.query if self._place == "query" else digest.headers).get(self.name)

    def wants_body(self, digest: RequestDigest) -> bool:
        """Whether the body of this request is to be read: nobody else's word counts."""
        return self._place == "body" and self.trust.covers(digest)

    def snapshot(self) -> ClaimedSnapshot:
        return ClaimedSnapshot(self.believed, self.bounded, self.malformed, self.untrusted)

    def check(self) -> None:
        """Check that the counts agree."""
        if not 0 <= self.bounded <= self.believed or min(self.malformed, self.untrusted) < 0:
            raise InvalidValueError("counters", self.snapshot(), "bounded claims must be among those believed")

    def __repr__(self) -> str:
        return f"<Claimed by {self._place} {self.name!r}: up to {self.most_seats} seats, {self.snapshot()}>"


def _number(told: object) -> int | None:
    """Return a number, from digits or, in a body, from a number."""
    if isinstance(told, str):
        told = told.strip(" \t")
        return int(told) if told.isascii() and told.isdigit() and len(told) <= _LONGEST else None
    return told if type(told) is int and 0 <= told < 10**_LONGEST else None


def _field(body: Mapping[str, object], name: str) -> object:
    """Return the field of this name, or the one to which a path of names leads."""
    found: object = body
    for step in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(step)
    return found


class Computed:
    """Asks a function of the app's own, which may be asynchronous; None from it is ``otherwise``.

    A number of seats is at most ``most_seats``; Work is taken as it is. What the function raises is not caught: a
    defect there is the server's error, and so is an answer that is none.
    """

    __slots__ = ("_function", "most_seats", "otherwise")

    dependence = ANYTHING

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
        self.most_seats: int = require_seats("most_seats", most_seats)
        self.otherwise: Work = otherwise

    def __call__(self, digest: RequestDigest, classification: Classification) -> Work | Awaitable[Work]:
        answer = self._function(digest, classification)
        if not isinstance(answer, int | Work) and inspect.isawaitable(answer):  # the first is cheaper to tell
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
        raise InvalidValueError(f"what {self._function!r} answered", answer, rule)

    def __repr__(self) -> str:
        return f"Computed({self._function!r}, most_seats={self.most_seats})"
