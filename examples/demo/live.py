"""The protected server under the load of the demonstration, minute after minute, and its console for a browser."""

import asyncio
import contextlib
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from apf_middleware.cli.control.local_console import LocalConsole
from apf_middleware.cli.control.workers import SocketWorker
from apf_middleware.config.sockets import DIRECTORY_VARIABLE, find_sockets
from examples.demo.load import Load, Run
from examples.demo.servers import serve

__all__ = ["show_console"]

_ROUND = Load(seconds=60)


def show_console(console: Console) -> NoReturn:
    """Print the address of the console, and send the load, until Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="apf-demo-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        [server] = stack.enter_context(serve("examples.demo.app:app", environment={DIRECTORY_VARIABLE: name}))
        local = stack.enter_context(contextlib.closing(LocalConsole(partial(_workers, folder))))
        threading.Thread(target=local.run, name="console", daemon=True).start()
        stack.callback(local.end)
        console.print(_opening(local.url), soft_wrap=True)
        while True:
            asyncio.run(Run(_ROUND, server.port).play())


def _workers(folder: Path) -> list[SocketWorker]:
    return [SocketWorker(file) for file in find_sockets(folder)]


def _opening(url: str) -> Text:
    load = _ROUND
    return Text.assemble(
        f"\n {load.mice} mice ask {load.rate:.0f} times a second each. In each minute, after {load.calm:.0f} s,\n",
        f" an elephant with {load.connections} connections comes.\n\n",
        (" Open this address in a browser", "bold"),
        "; it works once. Ctrl-C ends.\n\n ",
        (url, "cyan"),
        "\n",
    )
