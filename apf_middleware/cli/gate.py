"""``apf gate``: which gates keep requests waiting in a server that runs, and opening, closing and kicking them."""

from typing import Annotated

import typer

from apf_middleware.cli.control.durations import seconds_of
from apf_middleware.cli.control.gates import combine_gates, gate_disagreements, gate_table
from apf_middleware.cli.control.outcome import end, require_some
from apf_middleware.cli.control.server import Server, for_server
from apf_middleware.cli.control.shown import show_json
from apf_middleware.cli.control.workers import Reply, page
from apf_middleware.cli.output import Output, OutputOption, tell

__all__ = ["close_gate", "gates", "kick_gate", "list_gates", "open_gate"]

gates: typer.Typer = typer.Typer(
    help="Operate the gates of a server that runs. Exit status 0: done; 1: refused; 2: no such command; "
    "3: no server that answers; 4: only some workers, or they don't agree.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Name = Annotated[str, typer.Argument(help="The gate's name.", show_default=False)]
_Duration = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="For so long, like 10s or 500ms; or until opened.")
]


@gates.command("list")
@for_server
def list_gates(server: Server, *, output: OutputOption = Output.TEXT) -> None:
    """Show all gates, each key where anybody waits apart."""
    _show(server.ask("GET", page("gates")), output)


@gates.command("open")
@for_server
def open_gate(server: Server, *, name: _Name, output: OutputOption = Output.TEXT) -> None:
    """Open a gate in every worker, and let those who wait try."""
    _show(server.ask("POST", page("gates", name, "open"), {}), output)


@gates.command("close")
@for_server
def close_gate(
    server: Server,
    *,
    name: _Name,
    duration: _Duration = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Keep everybody waiting at a gate in every worker, whatever happens."""
    order = {} if duration is None else {"for": seconds_of(duration, "--for")}
    _show(server.ask("POST", page("gates", name, "close"), order), output)


@gates.command("kick")
@for_server
def kick_gate(
    server: Server,
    *,
    name: _Name,
    request: Annotated[int | None, typer.Option(min=0, help="Only the request with this id.")] = None,
) -> None:
    """Let those who wait at a gate try once more, in every worker."""
    order = {} if request is None else {"request": request}
    replies = server.ask("POST", page("gates", name, "kick"), order)
    require_some(replies)
    tell(f"kicked {sum(reply.document['kicked'] for reply in replies if reply.is_done)}")
    end(replies)


def _show(replies: list[Reply], output: Output) -> None:
    require_some(replies)
    found = combine_gates(replies)
    if output is Output.JSON:
        show_json({"gates": [one.as_dict() for one in found]})
    else:
        for line in gate_table(found):
            typer.echo(line)
    end(replies, odd=gate_disagreements(found))
