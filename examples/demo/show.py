"""The command: both runs with their progress, the results, and the next steps."""

import asyncio
import codecs
import contextlib
import http.client
import io
import json
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.syntax import Syntax
from rich.text import Text

from examples.demo.app import CONFIG, PLACES, SERVICE_S
from examples.demo.figures import summarise
from examples.demo.live import show_console
from examples.demo.load import Load, Run
from examples.demo.report import PROTECTED, UNPROTECTED, WIDTH, report
from examples.demo.servers import ROOT, Server, ServerStartError, delayed_signals, serve

__all__ = ["main", "register_sketch"]

_FRAME_S = 0.2
_SIGNS = str.maketrans("▁▂▃▄▅▆▇█░▔▲━╸╺", "_.-==+*#.-^===")
_METRICS = ("apf_dispatched_requests_total", "apf_rejected_requests_total", "apf_request_wait_duration_seconds_sum")
_TERMINATED = 143  # 128 and SIGTERM's number


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    ended: list[int] = []

    def end(number: int, _: object) -> None:
        """End as on Ctrl-C, so that servers are stopped too: asyncio then cancels its tasks."""
        ended.append(number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, end)
    _raise_file_limit()
    register_sketch()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="sketch")
    console = Console(stderr=options.json, highlight=False)
    load = Load(seconds=options.seconds)
    try:
        without, protected = show_console(console) if options.console else _play(console, load)
    except KeyboardInterrupt:
        console.show_cursor()  # an interrupt while the cursor is being hidden would leave it hidden
        if ended:
            sys.exit(_TERMINATED)
        raise
    except ServerStartError as error:
        sys.exit(f"the demonstration needs two servers, and one didn't start: {error}")
    if options.json:
        runs = {"without": summarise(without).as_json(), "with": summarise(protected).as_json()}
        print(json.dumps({"seconds": load.seconds, "deadline_ms": 1000 * load.deadline, **runs}, indent=2))


def _parse(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(
        prog="python -m examples.demo",
        description="An elephant and some mice before a real server, with and without protection.",
    )
    parser.add_argument("--seconds", type=_seconds, default=Load().seconds, help="of each of the two runs (8)")
    parser.add_argument("--json", action="store_true", help="figures to standard output, the show to standard error")
    parser.add_argument("--console", action="store_true", help="let the protected server run, and show its console")
    return parser.parse_args(arguments)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0.2 <= (seconds := float(text)) <= 3600:
            return seconds
    raise ArgumentTypeError(f"{text!r} must be a number of seconds between 0.2 and 3600")


def _raise_file_limit() -> None:
    """Raise the limit of open files: each connection is one, and some systems allow 256. Servers inherit the limit."""
    with suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - only where there is one

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= soft < 4096:
            resource.setrlimit(resource.RLIMIT_NOFILE, (4096 if hard < 0 else min(4096, hard), hard))


def register_sketch() -> None:
    """Register the error handler ``sketch``, for streams that can't encode all characters."""
    codecs.register_error("sketch", _sketch)


def _sketch(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that can't be encoded by ASCII ones."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    drawn = error.object[error.start : error.end].translate(_SIGNS)
    return drawn.encode("ascii", "replace").decode("ascii"), error.end


def _print(console: Console, what: RenderableType) -> None:
    console.print(Constrain(what, WIDTH))


def _opening(load: Load) -> RenderableType:
    config = Syntax(CONFIG.read_text().rstrip(), "yaml", theme="ansi_dark", background_color="default")
    return Group(
        Text.assemble(
            "\n An API on uvicorn; its backend has ",
            (f"{PLACES} places of {SERVICE_S * 1000:.0f} ms", "bold"),
            ", and slows down beyond.\n ",
            (f"{load.mice} mice", "bold"),
            f" ask {load.rate:.0f} times a second each, a fifth of what it can do. After {load.calm:.1f} s\n ",
            (f"an elephant with {load.connections} connections", "bold"),
            f" comes and never rests. All give up after {load.deadline:g} s.\n\n",
            " The second time there is one line more,\n ",
            ('app.add_middleware(APFMiddleware, config="apf.yaml")', "bold"),
            ", and this:",
        ),
        Panel(config, title=str(CONFIG.relative_to(ROOT)), title_align="left", border_style="dim", width=WIDTH),
    )


def _play(console: Console, load: Load) -> tuple[Run, Run]:
    _print(console, _opening(load))
    progress = Progress(
        TextColumn(" {task.description:19}"),
        BarColumn(26),
        TextColumn("{task.completed:4.1f} of {task.total:g} s"),
        TextColumn("{task.fields[said]}"),
        console=console,
        auto_refresh=False,
    )
    tasks = [progress.add_task(name, total=load.seconds, said="") for name in (UNPROTECTED, PROTECTED)]
    with serve("examples.demo.app:unprotected", "examples.demo.app:app") as servers:
        runs = [Run(load, server.port) for server in servers]
        with progress, contextlib.ExitStack() as stack:
            with delayed_signals():  # a partly initialized loop can't be closed
                runner = stack.enter_context(asyncio.Runner())
            for run, task in zip(runs, tasks, strict=True):
                runner.run(_watched(run, progress, task))
        without, protected = runs
        _print(console, Group(report(without, protected), _ending(servers[1])))
    return without, protected


async def _watched(run: Run, progress: Progress, task: TaskID) -> None:
    """Run the load, and draw its progress a few times a second."""

    async def watch() -> None:
        while True:
            _draw(run, progress, task)
            await asyncio.sleep(_FRAME_S)

    watching = asyncio.create_task(watch())
    try:
        await run.play()
    finally:
        watching.cancel()
    _draw(run, progress, task)


def _draw(run: Run, progress: Progress, task: TaskID) -> None:
    asked = [one for one in run.mice if one.due >= run.load.calm]
    said = f"mice served: {sum(one.is_served for one in asked) / len(asked):.0%}" if asked else ""
    progress.update(task, completed=run.elapsed, said=said, refresh=True)


def _ending(server: Server) -> RenderableType:
    """Return a part of the protected server's metrics, and the command that shows all of them."""
    shown = [line for line in _metrics(server).splitlines() if line.startswith(_METRICS) and 'customers"' in line]
    program = Path(sys.executable).with_name("uvicorn")
    uvicorn = str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else "uvicorn"
    commands = (
        (f"{uvicorn} examples.demo.app:app", "the app by itself"),
        ("curl -iH 'X-API-Key: mouse-1-key' localhost:8000/orders/7", "a mouse"),
        ("curl localhost:8000/metrics", "for Prometheus"),
        ("make demo CONSOLE=1", "the console"),
    )
    return Group(
        Text.assemble(" ", ("What its /metrics say now", "bold"), ", among much else"),
        *(Text(f"  {line}", "dim", no_wrap=True, overflow="ellipsis") for line in _shortened(shown)),
        Text.assemble("\n ", ("Look yourself", "bold")),
        *(Text.assemble("  ", (f"{command:60}", "cyan"), f" {what}") for command, what in commands),
        Text.assemble("\n README.md tells more, and ", ("make bench", "bold"), " measures more.\n"),
    )


def _shortened(lines: Sequence[str]) -> list[str]:
    """Return the lines without the labels that are the same in all of them."""
    labels = ('flow_schema="customers",', 'priority_level="customers",', ',priority_level="customers"')
    for label in labels:
        lines = [line.replace(label, "") for line in lines]
    return list(lines)


def _metrics(server: Server) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    except OSError:
        return ""
    finally:
        connection.close()
