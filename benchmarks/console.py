"""What an open console costs: ``python -m benchmarks.console [--json] [--seconds 600] [--waiting 50 1000]``.

The state of the server is large and hardly changes, so that its processor time is that of the console: so many
requests wait, of 20 flows, behind requests that take long. Periods without a page, with one page and with several pages
take turns. The last row has one page open for the rest of the time in Chromium; its heap is measured from time to time,
after a collection of garbage.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.measure import print_json, print_table
from tests.support.browser import Browser, Page, PageError, browser
from tests.support.console_load import load
from tests.support.console_shop import APP, CONFIG, CONSOLE, OPERATOR
from tests.support.servers import Server, cpu_seconds, serve

__all__ = ["ConsoleCost", "measure"]

_FLOWS: Final = 20
_PAGES: Final = (0, 1, 3)
_ROUNDS: Final = 3
_SAMPLES: Final = 10
_SETTLE_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class ConsoleCost:
    """The processor time of a server with so many ``pages`` open, in percent of a core, less that without a page.

    ``heap_mb`` is the largest heap of a page that was open for ``seconds``, and ``growth_mb`` its growth in the second
    half of that time; None where it wasn't measured.
    """

    waiting: int
    pages: int
    seconds: float
    percent: float
    heap_mb: float | None = None
    growth_mb: float | None = None


def measure(waiting: int, seconds: float) -> list[ConsoleCost]:
    """Measure a server in which so many requests wait, for about so many seconds."""
    each = max(1, waiting // _FLOWS)
    clients = [f"client-{number}:{each}:0:/orders/{number}?seconds=60" for number in range(_FLOWS)]
    period = max(2.0, min(20.0, seconds / 30))
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "apf.yaml"
        file.write_text(CONFIG.replace("waitLimit: 20s", "waitLimit: 3600s"))
        with (
            serve(APP, environment={"APF_CONFIG": str(file)}) as server,
            load(server.port, *clients),
            browser() as chrome,
        ):
            time.sleep(3 * _SETTLE_S)
            used: dict[int, list[float]] = {pages: [] for pages in _PAGES}
            for _ in range(_ROUNDS):
                for pages in _PAGES:
                    used[pages].append(_percent(server, chrome, pages, period))
            base = statistics.median(used[0])
            rows = [
                ConsoleCost(waiting, pages, period * _ROUNDS, round(statistics.median(used[pages]) - base, 2))
                for pages in _PAGES[1:]
            ]
            rest = max(period, seconds - period * _ROUNDS * len(_PAGES))
            return [*rows, _stay(server, chrome, waiting, rest, base)]


def _percent(server: Server, chrome: Browser, pages: int, period: float) -> float:
    """Return the processor time of the server with so many pages open, in percent of a core."""
    with contextlib.ExitStack() as stack:
        for _ in range(pages):
            stack.enter_context(_open(server, chrome))
        time.sleep(_SETTLE_S)
        return _used(server, period)


def _used(server: Server, period: float) -> float:
    before, began = cpu_seconds(server.pid), time.monotonic()
    time.sleep(period)
    after, ended = cpu_seconds(server.pid), time.monotonic()
    if before is None or after is None:
        return float("nan")
    return 100 * (after - before) / (ended - began)


@contextlib.contextmanager
def _open(server: Server, chrome: Browser) -> Iterator[Page]:
    with chrome.page() as page:
        page.send_headers(OPERATOR)
        page.open(server.url + CONSOLE)
        page.wait_for_text("#fact-live", "live")
        yield page


def _stay(server: Server, chrome: Browser, waiting: int, seconds: float, base: float) -> ConsoleCost:
    """Keep one page open for so many seconds."""
    heaps, used = [], []
    with _open(server, chrome) as page:
        for _ in range(_SAMPLES):
            used.append(_used(server, seconds / _SAMPLES))
            heaps.append(page.heap_bytes() / 2**20)
        page.wait_for_text("#fact-live", "live")
        if page.complaints:
            raise PageError(f"the page complains: {page.complaints}")
    growth = heaps[-1] - heaps[_SAMPLES // 2]
    percent = round(statistics.median(used) - base, 2)
    return ConsoleCost(waiting, 1, round(seconds, 1), percent, round(max(heaps), 2), round(growth, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="for each number of waiting requests")
    parser.add_argument("--waiting", type=int, nargs="+", default=[50, 1000], help="requests that wait")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for waiting in options.waiting for row in measure(waiting, options.seconds)]
    if options.json:
        print_json([asdict(row) for row in rows])
        return
    print_table(
        ("waiting", "pages", "seconds", "% of a core", "heap, MiB", "growth, MiB"),
        [["-" if one is None else str(one) for one in asdict(row).values()] for row in rows],
    )


if __name__ == "__main__":
    main()
