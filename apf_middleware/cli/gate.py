"""``apf gate``: show, open, close and kick the gates of a running server."""

from typing import Annotated

import typer

from apf_middleware.asgi.admin.documents import GateList
from apf_middleware.cli.control.merging import gate_disagreements, merge_gates
from apf_middleware.cli.control.options import parse_duration
from apf_middleware.cli.control.outcomes import end, require_success
from apf_middleware.cli.control.rendering import gate_table
from apf_middleware.cli.control.server import Server, for_server
from apf_middleware.cli.control.workers import Reply, page
from apf_middleware.cli.output import Output, OutputOption, show_json, tell

__all__ = ["close_gate", "gates", "kick_gate", "list_gates", "open_gate"]

gates: typer.Typer = typer.Typer(
    help="Operate the gates of a running server. Exit status 0: done; 1: refused; 2: no such command; "
    "3: no server that answers; 4: only some workers, or they don't agree.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Name = Annotated[str, typer.Argument(help="The gate's name.", show_default=False)]
_Duration = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="The time after which it opens, like 10s or 500ms.")
]


@gates.command("list")
@for_server
def list_gates(server: Server, *, output: OutputOption = Output.TEXT) -> None:
    """Show all gates, with a row for each key for which requests wait."""
    _show(server.ask("GET", page("gates"), GateList), output)


@gates.command("open")
@for_server
def open_gate(server: Server, *, name: _Name, output: OutputOption = Output.TEXT) -> None:
    """Open a gate in every worker, and let the held requests try."""
    _show(server.ask("POST", page("gates", name, "open"), GateList, {}), output)


@gates.command("close")
@for_server
def close_gate(
    server: Server,
    *,
    name: _Name,
    duration: _Duration = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Hold all requests at a gate in every worker until it is opened, or for a given time."""
    body = {} if duration is None else {"for": parse_duration(duration, "--for")}
    _show(server.ask("POST", page("gates", name, "close"), GateList, body), output)


@gates.command("kick")
@for_server
def kick_gate(
    server: Server,
    *,
    name: _Name,
    request: Annotated[int | None, typer.Option(min=0, help="Only the request with this id.")] = None,
) -> None:
    """Let the requests that a gate holds try once more, in every worker."""
    body = {} if request is None else {"request": request}
    replies = server.ask("POST", page("gates", name, "kick"), GateList, body)
    require_success(replies)
    tell(f"kicked {sum(reply.document.kicked for reply in replies if reply.document)}")
    end(replies)


def _show(replies: list[Reply[GateList]], output: Output) -> None:
    require_success(replies)
    found = merge_gates(replies)
    if output is Output.JSON:
        show_json({"gates": [one.as_dict() for one in found]})
    else:
        for line in gate_table(found):
            typer.echo(line)
    end(replies, odd=gate_disagreements(found))
