"""The messages between a member and the allocator, and their form on the wire: JSON with short keys.

Flows are known by their 64-bit hashes. A report lists the heaviest flows of each level; of all others it only has the
number and the sum of their demands. The flows are kept and written column by column, because that takes a fifth of the
time of an object for each flow.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apf_middleware.adaptive import RequestOutcome
from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError, require_integer
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from apf_middleware.fleet.budget import Budget, SeatRange
from apf_middleware.fleet.notice_board import Notice
from apf_middleware.fleet.samples import DurationSamples

__all__ = [
    "MOST_FLOWS",
    "VERSION",
    "FlowTable",
    "Grant",
    "Leave",
    "LevelPart",
    "LevelSum",
    "LevelUsage",
    "MemberRow",
    "Message",
    "Report",
    "Taken",
    "read_message",
    "write",
]

VERSION: Final = 2
"""The version of the messages. A member ignores messages of another version."""

MOST_FLOWS: Final = 100
"""The number of flows of one level that a report lists."""

_ENCODER: Final = json.JSONEncoder(check_circular=False, separators=(",", ":"))
_DECODER: Final = json.JSONDecoder()
_MOST: Final = 2**53
_MOST_HASH: Final = 2**64 - 1
_INTEGERS: Final = frozenset({int})

_Bounds = tuple[str, int, int]  # the name of a column, and the bounds of what is in it

_HASH: Final[_Bounds] = "flow in a message", 0, _MOST_HASH
_FACTORS: Final[Sequence[_Bounds]] = _HASH, ("factor in a message", 1, _MOST)
_FLOWS: Final[Sequence[_Bounds]] = _HASH, ("seats in a message", 0, _MOST), ("weight in a message", 0, _MOST)
_SAMPLES: Final[Sequence[_Bounds]] = (
    _HASH,
    ("duration in a message", 0, _MOST),
    ("age in a message", 0, _MOST),
    ("outcome in a message", 0, len(RequestOutcome) - 1),
)


@dataclass(frozen=True, slots=True)
class FlowTable(Value):
    """Some flows, the seats that each uses and waits for, and its weight in units of 2**-16, or 0 if it isn't known."""

    flows: tuple[int, ...] = ()
    seats: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()

    @classmethod
    def of(cls, seats: Mapping[int, int], weights: Mapping[int, int] | None = None) -> "FlowTable":
        """Return the table of these ``seats`` by flow; without ``weights``, all flows have the same."""
        if weights is None:
            return cls(tuple(seats), tuple(seats.values()), (WEIGHT_ONE,) * len(seats))
        return cls(tuple(seats), tuple(seats.values()), tuple([weights[flow] for flow in seats]))

    def rows(self) -> Iterable[tuple[int, int, int]]:
        """Iterate over the flows with their seats and weights."""
        return zip(self.flows, self.seats, self.weights, strict=True)

    def __len__(self) -> int:
        return len(self.flows)


@dataclass(frozen=True, slots=True)
class LevelUsage(Value):
    """The demand of one member at one level.

    ``in_use`` are its seats in use, ``arrivals`` its recent requests per second, and ``widest`` the seats of the
    request that is next. ``flows`` are the heaviest flows; ``rest_flows`` others demand ``rest_seats`` together.
    ``turns`` counts the wide requests that were next and don't wait any more.
    """

    in_use: int = 0
    arrivals: int = 0
    widest: int = 0
    flows: FlowTable = field(default_factory=FlowTable)
    rest_flows: int = 0
    rest_seats: int = 0
    turns: int = 0

    @property
    def demand(self) -> int:
        """The seats in use and the seats waited for."""
        return self.rest_seats + sum(self.flows.seats)


@dataclass(frozen=True, slots=True)
class Report(Value):
    """A member's report.

    ``number`` counts the member's reports. ``epoch`` and ``sequence`` are those of the grant that it obeys, and
    ``seats`` is its limit now. ``configuration`` identifies the configuration in force, which the member has had for
    ``age_ns``; ``budget`` is what it says about seats, unless the allocator uses it already. ``board`` is the digest of
    the member's `Board`, whose ``notices`` are sent if the allocator's digest is another one. A member that ``asks``
    gets the ``rows`` of all members with its next grant. If the total adapts, the report has ``samples``. ``maxes`` are
    the member's parts of levels and parents whose max is divided; of those that are ``exceeded``, requests that had
    begun before use these seats, which is more. ``leaving`` are the claims of levels that drain.
    """

    member: str
    number: int
    epoch: int
    sequence: int
    seats: int
    in_use: int
    configuration: str = ""
    levels: Mapping[str, LevelUsage] = field(default_factory=dict)
    age_ns: int = 0
    budget: Budget | None = None
    board: str = ""
    notices: Mapping[str, Notice] = field(default_factory=dict)
    asks: bool = False
    samples: DurationSamples | None = None
    maxes: Mapping[str, int] = field(default_factory=dict)
    leaving: Mapping[str, SeatDemand] = field(default_factory=dict)
    exceeded: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemberRow(Value):
    """What the allocator knows of one member, whose last report came ``age_ns`` ago."""

    member: str
    seats: int
    in_use: int
    demand: int
    age_ns: int
    configuration: str


@dataclass(frozen=True, slots=True)
class LevelSum(Value):
    """One level of the whole fleet: its seats in use and demanded, and its recent requests per second.

    ``flows`` are the heaviest ones, with the seats that they demand at all members.
    """

    in_use: int
    demand: int
    arrivals: int
    flows: FlowTable = field(default_factory=FlowTable)


@dataclass(frozen=True, slots=True)
class LevelPart(Value):
    """One level's part of a grant.

    ``weight`` and ``least`` are as in `SeatGrant`. ``factors`` reduce the weights of flows that also have requests at
    other members: 2**16 means no reduction.
    """

    weight: int
    least: int = 0
    factors: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grant(Value):
    """The allocator's answer to the ``report`` of this number: the member may use ``seats`` for the time of a lease.

    ``sequence`` counts the member's grants in this ``epoch``. If the fleet ``is_contended``, members give seats that
    they don't need back at once, except for as many as they may ``keep``. ``members`` is their number. The seats are
    divided by this ``configuration``. ``board`` and ``notices`` are as in a report. A member that asks gets the
    ``rows`` of all members, and the ``sums`` of all levels; ``allocator`` is the member whose process allocates. If the
    fleet's number of seats adapts, ``total`` is the present one, for the ``reason`` of the last decision, and the
    claims of the levels are parts of ``claimed`` seats. No grant has more than ``most`` seats, unless that is 0.
    ``maxes`` are the member's parts of levels and parents whose max is divided; those that are ``scarce`` aren't enough
    for all members.
    """

    epoch: int
    sequence: int
    report: int
    seats: int
    members: int = 1
    keep: int = 0
    is_contended: bool = False
    levels: Mapping[str, LevelPart] = field(default_factory=dict)
    configuration: str = ""
    board: str = ""
    notices: Mapping[str, Notice] = field(default_factory=dict)
    rows: tuple[MemberRow, ...] = ()
    allocator: str = ""
    total: int = 0
    claimed: int = 0
    reason: str = ""
    sums: Mapping[str, LevelSum] = field(default_factory=dict)
    most: int = 0
    maxes: Mapping[str, int] = field(default_factory=dict)
    scarce: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leave(Value):
    """The last message of a member, which has no requests any more."""

    member: str


@dataclass(frozen=True, slots=True)
class Taken(Value):
    """The standing grant (see `standing_grant`) of this ``round`` of divisions has come into force."""

    round: int


Message = Report | Grant | Leave | Taken
"""What members and allocators send."""


def write(message: Message) -> bytes:
    """Return the message as bytes."""
    data: dict[str, Any]
    if isinstance(message, Report):
        data = _written_report(message)
    elif isinstance(message, Grant):
        data = _written_grant(message)
    elif isinstance(message, Taken):
        data = {"v": VERSION, "taken": message.round}
    else:
        data = {"v": VERSION, "end": message.member}
    return _ENCODER.encode(data).encode()


def _written_report(report: Report) -> dict[str, Any]:
    levels = {
        name: [
            usage.in_use,
            usage.arrivals,
            usage.widest,
            _written_flows(usage.flows),
            usage.rest_flows,
            usage.rest_seats,
            usage.turns,
        ]
        for name, usage in report.levels.items()
    }
    numbers = [report.number, report.epoch, report.sequence, report.seats, report.in_use, report.age_ns]
    written = {"v": VERSION, "m": report.member, "n": numbers, "c": report.configuration, "l": levels}
    if report.maxes:
        written["x"] = dict(report.maxes)
    if report.exceeded:
        written["o"] = dict(report.exceeded)
    if report.leaving:
        written["f"] = _written_claims(report.leaving)
    if report.asks:
        written["asks"] = True
    if report.budget is not None:
        written["budget"] = _written_budget(report.budget)
    if report.samples is not None:
        one = report.samples
        written["s"] = [one.rejected, one.routes, one.durations, one.ages, one.outcomes]
    return written | _written_board(report.board, report.notices)


def _written_flows(table: FlowTable) -> list[tuple[int, ...]]:
    return [table.flows, table.seats, table.weights]


def _written_budget(budget: Budget) -> list[Any]:
    bounds = [] if budget.bounds is None else [budget.bounds.least, budget.bounds.most]
    return [budget.seats, _written_claims(budget.claims), dict(budget.priorities), bounds, budget.floor]


def _written_claims(claims: Mapping[str, SeatDemand]) -> dict[str, list[Any]]:
    return {name: [one.weight, one.least, one.most, one.parent] for name, one in claims.items()}


def _written_board(digest: str, notices: Mapping[str, Notice]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if digest:
        written["d"] = digest
    if notices:
        written["notices"] = {key: [one.version, one.author, one.value] for key, one in notices.items()}
    return written


def _written_grant(grant: Grant) -> dict[str, Any]:
    levels = {
        name: [part.weight, part.least, [[*part.factors], [*part.factors.values()]]]
        for name, part in grant.levels.items()
    }
    numbers = [grant.epoch, grant.sequence, grant.report, grant.seats, grant.members, grant.keep]
    written = {"v": VERSION, "n": numbers, "b": grant.is_contended, "c": grant.configuration, "l": levels}
    if grant.rows:
        rows = [[one.member, one.seats, one.in_use, one.demand, one.age_ns, one.configuration] for one in grant.rows]
        written |= {"rows": rows, "by": grant.allocator}
    if grant.sums:
        written["sums"] = {
            name: [one.in_use, one.demand, one.arrivals, _written_flows(one.flows)] for name, one in grant.sums.items()
        }
    if grant.total:
        written["t"] = [grant.total, grant.claimed, grant.reason]
    if grant.most:
        written["most"] = grant.most
    if grant.maxes:
        written |= {"x": dict(grant.maxes), "y": grant.scarce}
    return written | _written_board(grant.board, grant.notices)


def read_message(data: bytes) -> Message:
    """Return the message in ``data``; raise InvalidValueError if it isn't one of this version."""
    try:
        found = _DECODER.decode(data.decode())
        if found["v"] != VERSION:
            raise InvalidValueError("version of a message", found["v"], f"it must be {VERSION}", "Upgrade all members")
        if "end" in found:
            return Leave(_text(found["end"]))
        if "taken" in found:
            return Taken(_count(found["taken"]))
        return _read_report(found) if "m" in found else _read_grant(found)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InvalidValueError):
            raise
        raise InvalidValueError("message", data[:80], f"it must be one of a fleet ({error!r})") from error


def _read_report(found: Mapping[str, Any]) -> Report:
    levels = {_text(name): _read_usage(usage) for name, usage in found["l"].items()}
    number, epoch, sequence, seats, in_use, age = [_count(one) for one in found["n"]]
    return Report(
        _text(found["m"]),
        number,
        epoch,
        sequence,
        seats,
        in_use,
        _text(found["c"]),
        levels,
        age,
        _read_budget(found["budget"]) if "budget" in found else None,
        _text(found.get("d", "")),
        _read_notices(found.get("notices", {})),
        _flag(found.get("asks", False)),
        _read_samples(found["s"]) if "s" in found else None,
        _read_seats(found.get("x", {})),
        _read_claims(found.get("f", {})),
        _read_seats(found.get("o", {})),
    )


def _read_seats(found: Mapping[str, Any]) -> dict[str, int]:
    return {_text(name): _count(seats) for name, seats in found.items()}


def _read_samples(found: Any) -> DurationSamples:  # noqa: ANN401 - what JSON contains
    rejected, *columns = found
    routes, durations, ages, outcomes = _read_table(columns, _SAMPLES)
    return DurationSamples(_count(rejected), tuple(routes), tuple(durations), tuple(ages), tuple(outcomes))


def _read_budget(found: Any) -> Budget:  # noqa: ANN401 - what JSON contains
    seats, claims, priorities, bounds, floor = found
    return Budget(
        _count(seats),
        _read_claims(claims),
        {_text(name): require_integer("priority in a message", one) for name, one in priorities.items()},
        SeatRange(*map(_count, bounds)) if bounds else None,
        _count(floor),
    )


def _read_claims(found: Any) -> dict[str, SeatDemand]:  # noqa: ANN401 - what JSON contains
    return {
        _text(name): SeatDemand(
            _count(weight),
            0,
            _count(least),
            None if most is None else _count(most),
            None if parent is None else _text(parent),
        )
        for name, (weight, least, most, parent) in found.items()
    }


def _read_notices(found: Any) -> dict[str, Notice]:  # noqa: ANN401 - what JSON contains
    return {
        _text(key): Notice(_count(version), _text(author), _text(value))
        for key, (version, author, value) in found.items()
    }


def _read_usage(found: Any) -> LevelUsage:  # noqa: ANN401 - what JSON contains
    in_use, arrivals, widest, flows, rest_flows, rest_seats, turns = found
    least = 1 if _count(rest_seats) else 0
    require_integer("rest of the flows in a message", rest_flows, least=least, most=_MOST)
    table = _read_flows(flows)
    return LevelUsage(
        _count(in_use), _count(arrivals), _count(widest), table, rest_flows, rest_seats, turns=_count(turns)
    )


def _read_flows(found: Any) -> FlowTable:  # noqa: ANN401 - what JSON contains
    hashes, seats, weights = _read_table(found, _FLOWS)
    return FlowTable(tuple(hashes), tuple(seats), tuple(weights))


def _read_grant(found: Mapping[str, Any]) -> Grant:
    levels = {
        _text(name): LevelPart(_count(weight), _count(least), _read_factors(factors))
        for name, (weight, least, factors) in found["l"].items()
    }
    epoch, sequence, report, seats, members, keep = [_count(one) for one in found["n"]]
    total, claimed, reason = found.get("t", (0, 0, ""))
    return Grant(
        epoch,
        sequence,
        report,
        seats,
        members,
        keep,
        _flag(found["b"]),
        levels,
        _text(found["c"]),
        _text(found.get("d", "")),
        _read_notices(found.get("notices", {})),
        tuple(
            MemberRow(_text(member), _count(seats), _count(in_use), _count(demand), _count(age), _text(configuration))
            for member, seats, in_use, demand, age, configuration in found.get("rows", ())
        ),
        _text(found.get("by", "")),
        _count(total),
        _count(claimed),
        _text(reason),
        {
            _text(name): LevelSum(_count(in_use), _count(demand), _count(arrivals), _read_flows(flows))
            for name, (in_use, demand, arrivals, flows) in found.get("sums", {}).items()
        },
        _count(found.get("most", 0)),
        _read_seats(found.get("x", {})),
        tuple(map(_text, found.get("y", ()))),
    )


def _read_factors(found: Any) -> dict[int, int]:  # noqa: ANN401 - what JSON contains
    hashes, factors = _read_table(found, _FACTORS)
    return dict(zip(hashes, factors, strict=True))


def _read_table(found: Any, bounds: Sequence[_Bounds]) -> list[Any]:  # noqa: ANN401 - what JSON contains
    """Return the columns of a table of integers, which must be within the ``bounds`` of their columns."""
    columns = [*found]
    is_table = len(columns) == len(bounds) and {*map(type, columns)} == {list} and len({*map(len, columns)}) == 1
    if not is_table or not all({*map(type, column)} <= _INTEGERS for column in columns):
        rule = f"it must have {len(bounds)} lists of integers, equally long"
        raise InvalidValueError("table in a message", found, rule)
    for column, (name, least, most) in zip(columns, bounds, strict=True):
        if column and not least <= min(column) <= max(column) <= most:
            require_integer(name, min(column), least=least)
            require_integer(name, max(column), most=most)
    return columns


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValueError("name in a message", value, "it must be a string")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidValueError("flag in a message", value, "it must be true or false")
    return value


def _count(value: object) -> int:
    if type(value) is int and 0 <= value <= _MOST:
        return value
    return require_integer("number in a message", value, least=0, most=_MOST)
