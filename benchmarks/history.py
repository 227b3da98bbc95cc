"""Whether a client starves for its history, on the wire: ``python -m benchmarks.history [--json] [--before 30]``.

A server with four seats on uvicorn, whose requests take 40 ms. A client with eight connections runs beside one with a
single connection for ``--before`` seconds; then a third one comes with seven connections. All come from addresses of
their own, so each is a flow. For each discipline: the requests of each client in each three seconds, the last two such
windows before the third client came and all those after it. ``least`` is the least part of its fair share (1.5 seats
each) that one of the two large clients had in a window after that.

``--strict`` adds Kubernetes' behaviour (``strictUpstream``), under which the first client starves.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from apf_middleware.fairqueuing import DISCIPLINES
from benchmarks.history_app import SEATS, WORK_S
from benchmarks.measure import print_json, print_table
from tests.support.servers import serve

__all__ = ["WINDOW_S", "History", "main", "play"]

WINDOW_S: Final = 3.0

_CONNECTIONS: Final = (8, 1, 7)
_SHARE: Final = 1.5  # of four seats, where the client with one connection can't use more than one
_STRICT: Final = "equal-serial, strict"
_ASK: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass(frozen=True, slots=True)
class History:
    """What each client was served in each window: those ``before`` the third one came, and those ``after``."""

    discipline: str
    seconds_before: float
    before: Sequence[Sequence[int]]
    after: Sequence[Sequence[int]]

    @property
    def least(self) -> float:
        """The least part of its fair share that a client with many connections had in a window."""
        fair = _SHARE / SEATS * max(sum(window) for window in self.after)
        return min(min(window[0], window[2]) for window in self.after) / fair

    @property
    def is_starving(self) -> bool:
        """Whether some client was served nothing in a window."""
        return any(0 in window for window in self.after)


def play(discipline: str, before: float, after: float) -> History:
    """Start a server with this ``discipline``, and let the clients come."""
    is_strict = discipline == _STRICT
    environment = {"APF_DISCIPLINE": "equal-serial" if is_strict else discipline, "APF_STRICT": str(is_strict).lower()}
    with serve("benchmarks.history_app:app", environment=environment, ready="/metrics") as server:
        served = asyncio.run(_play(server.port, before, after))
    earlier = [[_count(times, -window, -window + 1) for times in served] for window in (2, 1)]
    later = [[_count(times, window, window + 1) for times in served] for window in range(int(after / WINDOW_S))]
    return History(discipline, before, earlier, later)


def _count(times: Sequence[float], begin: int, end: int) -> int:
    return sum(begin * WINDOW_S <= moment < end * WINDOW_S for moment in times)


async def _play(port: int, before: float, after: float) -> list[list[float]]:
    """Return the times of each client's responses, from the arrival of the third client on."""
    change = time.monotonic() + before
    served: list[list[float]] = [[] for _ in _CONNECTIONS]
    async with asyncio.TaskGroup() as tasks:
        for client, connections in enumerate(_CONNECTIONS):
            for _ in range(connections):
                begin = change if client == len(_CONNECTIONS) - 1 else change - before
                tasks.create_task(_ask(port, client, begin, change + after, served[client]))
    return [[moment - change for moment in times] for times in served]


async def _ask(port: int, client: int, begin: float, end: float, served: list[float]) -> None:
    """Ask again as soon as there is an answer, from ``begin`` to ``end``."""
    await asyncio.sleep(begin - time.monotonic())
    async with AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.{client + 1}.1", 0))
        stack.callback(writer.close)
        while (now := time.monotonic()) < end:
            writer.write(_ASK)
            try:
                async with asyncio.timeout(end - now):
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                    await reader.readexactly(int(length))
            except TimeoutError:
                return
            if head.split(maxsplit=2)[1] == b"200":
                served.append(time.monotonic())
            else:
                await asyncio.sleep(WORK_S)


class Play(Protocol):
    """Plays the scenario."""

    def __call__(self, discipline: str, before: float, after: float) -> History: ...


def main(arguments: Sequence[str] | None = None, run: Play = play) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.history", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--before", type=float, nargs="+", default=[30], help="seconds before the third client comes (30)"
    )
    parser.add_argument("--after", type=float, default=30, help="seconds after that (30)")
    parser.add_argument("--discipline", choices=DISCIPLINES, help="this one alone")
    parser.add_argument("--strict", action="store_true", help="Kubernetes' behaviour too")
    given = parser.parse_args(arguments)
    disciplines = [given.discipline] if given.discipline else [*DISCIPLINES]
    if given.strict:
        disciplines.append(_STRICT)
    found = [run(discipline, before, given.after) for before in given.before for discipline in disciplines]
    if given.json:
        print_json([{**asdict(one), "least": round(one.least, 2), "is_starving": one.is_starving} for one in found])
    else:
        print_table(
            ("discipline", "before", "least", "client", "before that", "requests per 3 s"),
            (row for one in found for row in _rows(one)),
        )


def _rows(one: History) -> list[Sequence[object]]:
    return [
        (
            "" if client else one.discipline,
            "" if client else f"{one.seconds_before:g} s",
            "" if client else f"{one.least:.2f}",
            f"{connections} connections",
            " ".join(str(window[client]) for window in one.before),
            " ".join(str(window[client]) for window in one.after),
        )
        for client, connections in enumerate(_CONNECTIONS)
    ]


if __name__ == "__main__":
    main()
