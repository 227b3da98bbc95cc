"""The command: plays both runs at once, draws them in a terminal, and reports the results."""

import codecs
import io
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from rich.console import Console
from rich.constrain import Constrain
from rich.live import Live

from examples.elephant.picture import WIDTH, draw
from examples.elephant.report import report
from examples.elephant.simulation import MS, Backend, Load, fair_backend, plain_backend

__all__ = ["main"]

_FRAME_NS = 50 * MS
_FAST_FRAME_NS = 250 * MS
_SIGNS = str.maketrans("▁▂▃▄▅▆▇█▒▔·", "_.-==+*#e-.")


def main(arguments: Sequence[str] | None = None) -> None:
    fast = _parse(arguments).fast
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("sketch", _sketch)
        sys.stdout.reconfigure(errors="sketch")
    console = Console(highlight=False)
    load = Load()
    plain, fair = plain_backend(load), fair_backend(load)
    if console.is_interactive and sys.stdout.isatty():
        _play(console, plain, fair, fast=fast)
    else:
        plain.run()
        fair.run()
        console.print(Constrain(draw(plain, fair), WIDTH))
    console.print(Constrain(report(plain, fair), WIDTH))


def _parse(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(
        prog="python -m examples.elephant",
        description="An elephant and some mice before one backend, with and without fairness.",
    )
    parser.add_argument("--fast", action="store_true", help="as fast as it can be drawn, not in real time")
    return parser.parse_args(arguments)


def _sketch(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that can't be written by letters and signs: e is the elephant."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    drawn = error.object[error.start : error.end].translate(_SIGNS)
    return drawn.encode("ascii", "replace").decode("ascii"), error.end


def _play(console: Console, plain: Backend, fair: Backend, *, fast: bool) -> None:
    """Advance both runs frame by frame."""
    frame_ns = _FAST_FRAME_NS if fast else _FRAME_NS
    began = time.monotonic()
    with Live(console=console, auto_refresh=False) as live:
        for now in range(frame_ns, plain.load.lasts_ns + 1, frame_ns):
            plain.run(now)
            fair.run(now)
            live.update(Constrain(draw(plain, fair), WIDTH), refresh=True)
            if not fast:
                time.sleep(max(began + now / (1000 * MS) - time.monotonic(), 0))
