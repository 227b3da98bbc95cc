"""``apf console``: the console of a running server in the browser at hand."""

import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer

from apf_middleware.asgi.admin.documents import ModeDocument, ProblemDocument
from apf_middleware.cli.control.local_console import LocalConsole
from apf_middleware.cli.control.outcomes import Exit, fail, require_success
from apf_middleware.cli.control.server import Server, for_server
from apf_middleware.cli.control.workers import page
from apf_middleware.exceptions import reason_of

__all__ = ["console"]

_Port = Annotated[int, typer.Option(min=0, max=65535, help="The local port; 0 is any free one.")]
_Open = Annotated[bool, typer.Option("--open", help="Open the address in the default browser.")]


@for_server
def console(server: Server, *, port: _Port = 0, opens: _Open = False) -> None:
    """Show the server in a browser, until Ctrl-C: at a local address that works once, for one browser.

    The browser needs no credentials. This command uses its own: the sockets, or a token with --server.
    """
    require_success(server.ask("GET", page("mode"), ModeDocument))
    _require_console(server)
    try:
        local = LocalConsole(lambda: server.renewed().workers, port)
    except OSError as error:
        fail(f"port {port} can't be used: {reason_of(error)}", Exit.REFUSED)
    with closing(local), _opened(local.url) if opens else nullcontext():
        try:
            typer.echo(f"Open {local.url}")
            typer.echo("The address works once. Ctrl-C ends.", err=True)
            local.run()
        except KeyboardInterrupt:
            return


def _require_console(server: Server) -> None:
    """End the command if the server has no console, which would answer 404 in the browser."""
    # A console redirects to its folder, which is no document, so only the error has a status here.
    if any(reply.status == HTTPStatus.NOT_FOUND for reply in server.ask("GET", page("console"), ProblemDocument)):
        rule = "set spec.admin.console of its Server document to true, and reload or restart it"
        fail(f"{server.name} has no console: {rule}; its sockets (--runtime-dir) need no setting", Exit.REFUSED)


@contextmanager
def _opened(url: str) -> Iterator[None]:
    """Open ``url`` in the default browser, by a file that only the user can read and that is removed at the end.

    All users of a machine can read the arguments of its processes, so the browser must not get the address as one.
    """
    with tempfile.TemporaryDirectory(prefix="apf-console-") as folder:
        file = Path(folder, "open.html")
        head = '<!doctype html><meta name="referrer" content="no-referrer"><title>apf console</title>'
        file.write_text(f'{head}<meta http-equiv="refresh" content="0; url={escape(url)}">\n')
        webbrowser.open(file.as_uri())
        yield
