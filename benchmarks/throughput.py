"""Processor time per request and requests a second through uvicorn: ``python -m benchmarks.throughput [--json]``.

The servers of all rows run at once (uvicorn with uvloop and httptools, one worker, no access log), on one core; wrk has
the other. In each round each server has two bursts of requests from 64 connections, in random order:

- alone: ``requests_per_s`` and latencies. ``ratio`` is to the bare app's requests per second in the same round.
- beside the reference, another server of the bare app with the same load at the same time: what else happens on the
  machine happens to both. ``cpu_us`` is the processor time per request, ``cpu_ratio`` its ratio to the reference's,
  which without noise would be 1 for the bare app.

Ratios are medians over the rounds, with quartiles. Processes of the same program differ by a percent or two, according
to where their memory is and to their hash seed, so all servers are started anew in the course of the rounds, all with
another seed. ``foreign_cpu`` is what other processes take (in cores, the median): ``cpu_ratio`` hardly depends on it,
but all else does.

Python collects garbage when 700 more objects have been created than deleted, and a collection of all objects takes as
long as some hundred requests. Whether 64 requests at once create so many depends on a few objects. With ``--connections
32`` no server has collections, and with 256 each one has.

``--compiled .venv-native/bin/python`` adds rows of the compiled build, which ``make native`` installs there. They are
compared with the bare app of the same interpreter. An answer that is not the app's ends the benchmark with an error.
"""

import argparse
import contextlib
import re
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.bursts import Burst, BurstTarget, WorthlessRowError, send_bursts
from benchmarks.interpreters import Interpreter, WrongBuildError, compiled_interpreter
from benchmarks.measure import print_json, print_table, quartiles
from benchmarks.wire_apps import environment
from benchmarks.wire_builds import Build
from benchmarks.wrk import CONNECTIONS
from tests.support.servers import ServerStartError, cores, serve

__all__ = [
    "ANSWERS",
    "COMPILED_ROWS",
    "ROWS",
    "MeasuredRow",
    "Plan",
    "ThroughputRow",
    "choose",
    "compare",
    "in_turns",
    "measure",
    "noise",
]

Row = dict[str, Any]

ANSWERS: Final[Mapping[str, bytes]] = {"raw": b"ok", "starlette": b"ok", "fastapi": b'{"name":"42","limit":10}'}
"""The apps, and what they answer."""

_COLUMNS: Final = (
    *("base", "row", "build", "cpu_us", "cpu_ratio", "cpu_ratio_q1", "cpu_ratio_q3"),
    *("requests_per_s", "ratio", "ratio_q1", "ratio_q3", "p50_ms", "p99_ms", "foreign_cpu"),
)


@dataclass(frozen=True, slots=True)
class ThroughputRow:
    """A wrapper around an app, in our interpreter or in that of the compiled build."""

    base: str
    wrapper: str
    is_compiled: bool = False

    @property
    def name(self) -> str:
        return f"{self.wrapper}-compiled" if self.is_compiled else self.wrapper

    @property
    def bare(self) -> "ThroughputRow":
        """The row with which this one is compared."""
        return ThroughputRow(self.base, "bare", self.is_compiled)


ROWS: Final = tuple(
    ThroughputRow(base, wrapper) for base in ANSWERS for wrapper in ("bare", "noop", "semaphore", "headers", "ours")
)
COMPILED_ROWS: Final = tuple(
    ThroughputRow(base, wrapper, is_compiled=True) for base in ANSWERS for wrapper in ("bare", "ours")
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How often servers are started and get bursts, of how many seconds; the interpreter of the compiled build."""

    rounds: int
    starts: int
    seconds: int
    warm_up: int
    compiled: Path | None
    connections: int = CONNECTIONS

    def parts(self) -> Sequence[int]:
        """Return the number of rounds after each start."""
        return [self.rounds // self.starts + (start < self.rounds % self.starts) for start in range(self.starts)]


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """A row, its bursts alone, and those beside the reference, with which they were at once."""

    row: ThroughputRow
    alone: list[Burst] = field(default_factory=list)
    beside: list[Burst] = field(default_factory=list)
    references: list[Burst] = field(default_factory=list)


def measure(rows: Sequence[ThroughputRow], plan: Plan) -> Sequence[MeasuredRow]:
    """Send bursts to the rows in turns, each alone and beside another bare server of its app and interpreter."""
    measured = {row: MeasuredRow(row) for row in rows}
    _, load_core = cores() or (None, None)
    random = Random(1)
    with contextlib.ExitStack() as stack:
        interpreters = {False: Interpreter()}
        if plan.compiled:
            interpreters[True] = stack.enter_context(compiled_interpreter(plan.compiled))
        for start, rounds in enumerate(plan.parts()):
            with _started(rows, interpreters, start, plan.warm_up) as servers:
                for _ in range(rounds):
                    for row in in_turns(rows, random):
                        measured[row].alone.extend(
                            send_bursts([servers.targets[row]], plan.seconds, load_core, plan.connections)
                        )
                    # In turns of their own, so that both servers were idle before.
                    for row in in_turns(rows, random):
                        _send_beside(measured[row], servers, plan, random)
    return list(measured.values())


@dataclass(frozen=True, slots=True)
class _Servers:
    """The servers of the rows, and the references by the bare rows that they are like."""

    targets: Mapping[ThroughputRow, BurstTarget]
    references: Mapping[ThroughputRow, BurstTarget]


def _send_beside(one: MeasuredRow, servers: _Servers, plan: Plan, random: Random) -> None:
    _, load_core = cores() or (None, None)
    pair = [(servers.targets[one.row], one.beside), (servers.references[one.row.bare], one.references)]
    random.shuffle(pair)  # the first one begins a little earlier
    bursts = send_bursts([target for target, _ in pair], plan.seconds, load_core, plan.connections)
    for burst, (_, seen) in zip(bursts, pair, strict=True):
        seen.append(burst)


@contextlib.contextmanager
def _started(
    rows: Sequence[ThroughputRow], interpreters: Mapping[bool, Interpreter], seed: int, warm_up: int
) -> Iterator[_Servers]:
    with contextlib.ExitStack() as stack:

        def start(row: ThroughputRow) -> BurstTarget:
            return stack.enter_context(_served(row, interpreters[row.is_compiled], seed, warm_up))

        yield _Servers({row: start(row) for row in rows}, {row: start(row) for row in rows if row == row.bare})


@contextlib.contextmanager
def _served(row: ThroughputRow, interpreter: Interpreter, seed: int, warm_up: int) -> Iterator[BurstTarget]:
    server_core, load_core = cores() or (None, None)
    with serve(
        "benchmarks.wire_apps:make_app",
        *("--factory", "--loop", "uvloop", "--http", "httptools", "--lifespan", "off"),
        environment={**environment(row.base, row.wrapper), **interpreter.variables, "PYTHONHASHSEED": str(seed)},
        core=server_core,
        python=interpreter.python,
        folder=interpreter.folder,
    ) as server:
        interpreter.check(server.output())
        target = BurstTarget(f"{row.base} {row.name}", server, ANSWERS[row.base])
        target.check_answer()
        if warm_up:
            send_bursts([target], warm_up, load_core)
        yield target


def in_turns(rows: Sequence[ThroughputRow], random: Random) -> Iterator[ThroughputRow]:
    """Yield the rows in the order of their bursts: those of an app follow each other, else at random."""
    bases = list(dict.fromkeys(row.base for row in rows))
    random.shuffle(bases)
    for base in bases:
        turn = [row for row in rows if row.base == base]
        random.shuffle(turn)
        yield from turn


def compare(measured: Sequence[MeasuredRow], plan: Plan) -> Iterator[Row]:
    """Compare processor time with the reference's, and requests per second with those of the bare rows."""
    alone = {one.row: one.alone for one in measured}
    for one in measured:
        bare = alone[one.row.bare]
        foreign = [burst.foreign_cpu for burst in (*one.alone, *one.beside) if burst.foreign_cpu is not None]
        cpu = [burst.cpu_us for burst in one.beside], [burst.cpu_us for burst in one.references]
        requests = [burst.per_second for burst in one.alone], [burst.per_second for burst in bare]
        yield {
            "base": one.row.base,
            "row": one.row.name,
            "build": "compiled" if one.row.is_compiled else Build.here().name,
            **_ratios(("cpu_us", "cpu_ratio"), *cpu, 2),
            **_ratios(("requests_per_s", "ratio"), *requests),
            "p50_ms": round(statistics.median(burst.p50_ms for burst in one.alone), 3),
            "p99_ms": round(statistics.median(burst.p99_ms for burst in one.alone), 3),
            "foreign_cpu": round(statistics.median(foreign), 3) if foreign else None,
            "foreign_cpu_max": round(max(foreign), 3) if foreign else None,
            "rounds": plan.rounds,
            "starts": plan.starts,
            "is_pinned": cores() is not None,
        }


def _ratios(
    names: tuple[str, str], mine: Sequence[float | None], its: Sequence[float | None], digits: int | None = None
) -> Row:
    """Return the median of a figure, and that of its ratio to the bare app's with quartiles; None if not known."""
    figure, ratio = names
    known = [(one, bare) for one, bare in zip(mine, its, strict=True) if one is not None and bare]
    if not known:
        return dict.fromkeys((figure, ratio, f"{ratio}_q1", f"{ratio}_q3"))
    low, middle, high = quartiles([one / bare for one, bare in known])
    return {
        figure: round(statistics.median(one for one, _ in known), digits),
        ratio: round(middle, 3),
        f"{ratio}_q1": round(low, 3),
        f"{ratio}_q3": round(high, 3),
    }


def noise(rows: Sequence[Row]) -> str:
    """Return a line that tells how much the machine disturbs: what should be 1 is, and what other processes take."""
    bare = [
        f"{row['base']} {row['cpu_ratio_q1']} to {row['cpu_ratio_q3']}"
        for row in rows
        if row["row"] == "bare" and row["cpu_ratio"] is not None
    ]
    foreign = [row for row in rows if row["foreign_cpu"] is not None]
    parts = []
    if bare:
        parts.append(f"cpu_ratio of bare, quartiles: {', '.join(bare)}")
    if foreign:
        middle = statistics.median(row["foreign_cpu"] for row in foreign)
        parts.append(
            f"other processes: {middle:.2f} cores, at most {max(row['foreign_cpu_max'] for row in foreign):.2f}"
        )
    return f"noise: {'; '.join(parts) or 'not known'}"


def choose(pattern: str, *, with_compiled: bool = False) -> Sequence[ThroughputRow]:
    """Return the rows that match by base and name, and the bare ones that they are compared with."""
    rows = (*ROWS, *(COMPILED_ROWS if with_compiled else ()))
    matching = [row for row in rows if re.search(pattern, f"{row.base} {row.name}")]
    needed = {row.bare for row in matching}
    return [row for row in rows if row in matching or row in needed]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description="What a request costs.")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.add_argument("--seconds", type=int, default=1, help="of one burst")
    parser.add_argument("--warm-up", type=int, default=1, help="seconds that aren't counted")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="of one burst")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--starts", type=int, default=5, help="of all servers, in the course of the rounds")
    parser.add_argument("--only", metavar="REGEX", default="", help="rows whose base and name match, say 'raw ours'")
    parser.add_argument("--compiled", metavar="PYTHON", type=Path, help="an interpreter that has the compiled build")
    return parser


def main() -> None:
    parser = _parser()
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk makes the load, and it isn't installed. Install it (apt-get install wrk, brew install wrk)")
    chosen = choose(options.only, with_compiled=options.compiled is not None)
    if (
        not 1 <= options.starts <= options.rounds
        or min(options.seconds, options.connections) < 1
        or options.warm_up < 0
        or not chosen
    ):
        rules = (
            "--starts, --seconds and --connections must be at least 1, --rounds at least --starts, --warm-up at least 0"
        )
        parser.error(f"{rules}; --only must match a row")
    if options.compiled and not options.compiled.exists():
        parser.error(f"--compiled: there is no {options.compiled}. Make one with: make native")
    if cores() is None:
        print("One core only, or no way to choose one: servers and wrk share what there is", file=sys.stderr)
    plan = Plan(options.rounds, options.starts, options.seconds, options.warm_up, options.compiled, options.connections)
    try:
        rows = list(compare(measure(chosen, plan), plan))
    except (ServerStartError, WorthlessRowError, WrongBuildError) as error:
        sys.exit(str(error))
    if options.json:
        print_json(rows)
        return
    print_table(_COLUMNS, (["-" if row[column] is None else row[column] for column in _COLUMNS] for row in rows))
    print(noise(rows))


if __name__ == "__main__":
    main()
