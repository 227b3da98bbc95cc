"""``apf console``: the console of a running server in the browser at hand."""

import webbrowser
from contextlib import closing
from typing import Annotated

import typer

from apf_middleware.asgi.admin.documents import ModeDocument
from apf_middleware.cli.control.local_console import LocalConsole
from apf_middleware.cli.control.outcomes import Exit, fail, require_success
from apf_middleware.cli.control.server import Server, for_server
from apf_middleware.cli.control.workers import page

__all__ = ["console"]

_Port = Annotated[int, typer.Option(min=0, max=65535, help="The local port; 0 is any free one.")]
_Open = Annotated[bool, typer.Option("--open", help="Open the address in the default browser.")]


@for_server
def console(server: Server, *, port: _Port = 0, opens: _Open = False) -> None:
    """Show the server in a browser, until Ctrl-C: at a local address that works once, for one browser.

    The browser needs no credentials. This command uses its own: the sockets, or a token with --server.
    """
    require_success(server.ask("GET", page("mode"), ModeDocument))
    try:
        local = LocalConsole(lambda: server.renewed().workers, port)
    except OSError as error:
        fail(f"port {port} can't be used: {(error.strerror or str(error)).lower()}", Exit.REFUSED)
    with closing(local):
        typer.echo(f"Open {local.url}")
        typer.echo("The address works once. Ctrl-C ends.", err=True)
        if opens:
            webbrowser.open(local.url)
        try:
            local.run()
        except KeyboardInterrupt:
            return
