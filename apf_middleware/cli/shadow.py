"""``apf shadow``: try a second configuration with the requests of a running server."""

from pathlib import Path
from typing import Annotated

import typer

from apf_middleware.asgi.admin.documents import ShadowDocument, to_json
from apf_middleware.cli.control.outcomes import Exit, end, fail, require_success
from apf_middleware.cli.control.server import Server, for_server
from apf_middleware.cli.control.shadow_rendering import shadow_lines
from apf_middleware.cli.control.shadows import merge_shadows
from apf_middleware.cli.control.workers import Reply, page
from apf_middleware.cli.output import Output, OutputOption, is_there, show_json
from apf_middleware.config import ConfigurationError, read_source
from apf_middleware.config.files import MAX_BYTES
from apf_middleware.exceptions import reason_of
from apf_middleware.snapshots.shadow import ShadowSnapshot

__all__ = ["promote_shadow", "report_shadow", "shadows", "start_shadow", "stop_shadow"]

shadows: typer.Typer = typer.Typer(
    help="Try a second configuration on a running server. It sees all requests and decides nothing. Exit status 0: "
    "done; 1: refused; 2: no such command; 3: no server that answers; 4: only some workers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_File = Annotated[Path, typer.Argument(metavar="NEW.yaml", help="The configuration to try.", show_default=False)]
_ClassifyOnly = Annotated[
    bool, typer.Option("--classify-only", help="Only compare where requests go; let none wait for virtual seats.")
]


@shadows.command("start")
@for_server
def start_shadow(
    server: Server, *, file: _File, classify_only: _ClassifyOnly = False, output: OutputOption = Output.TEXT
) -> None:
    """Try a configuration in every worker from now on, instead of the one that is tried so far, if any."""
    body = {"configuration": _read(file), "source": str(file), "classifyOnly": classify_only}
    replies = server.ask("PUT", page("shadow"), ShadowDocument, body)
    require_success(replies)
    if output is Output.JSON:
        _show(replies, output)
    else:
        number = sum(reply.is_done for reply in replies)
        typer.echo(f"{file} is tried in {number} of {len(replies)} workers; see it with: apf shadow report")
    end(replies)


@shadows.command("report")
@for_server
def report_shadow(server: Server, *, output: OutputOption = Output.TEXT) -> None:
    """Show what the configuration that is tried would have done, summed up over all workers."""
    replies = server.ask("GET", page("shadow"), ShadowDocument)
    require_success(replies)
    if not _tried(replies):
        fail("no configuration is tried now; begin with: apf shadow start NEW.yaml", Exit.REFUSED)
    _show(replies, output)
    end(replies, odd=_odd(replies))


@shadows.command("stop")
@for_server
def stop_shadow(server: Server, *, output: OutputOption = Output.TEXT) -> None:
    """End the trial in every worker, and show its last report."""
    replies = server.ask("DELETE", page("shadow"), ShadowDocument)
    require_success(replies)
    _show(replies, output)
    end(replies)


@shadows.command("promote")
@for_server
def promote_shadow(server: Server) -> None:
    """Put the configuration that is tried in force in every worker.

    The files of the server are not written: the next reload or restart reads them again, and their configuration
    takes its place.
    """
    replies = server.ask("POST", page("shadow", "promote"), ShadowDocument, {})
    require_success(replies)
    sources = {one.source for one in _tried(replies)}
    typer.echo(f"{', '.join(sorted(sources)) or 'The configuration'} is in force until the next reload or restart.")
    typer.echo("The server's own files are unchanged: write the configuration there to keep it.")
    end(replies)


def _read(file: Path) -> str:
    """Return the text of a configuration; if it has errors, show them with their places before any worker is asked."""
    if is_there(file, "NEW.yaml") and file.is_dir():
        raise typer.BadParameter(f"{file} is a folder; give one file", param_hint="NEW.yaml")
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)  # enough to see that it is too long; a device may never end
    except OSError as error:
        raise typer.BadParameter(f"{file} can't be read: {reason_of(error)}", param_hint="NEW.yaml") from None
    try:
        read_source(content, str(file), allow_empty=False).unwrap()
    except ConfigurationError as error:
        typer.echo(error, err=True)
        raise typer.Exit(Exit.REFUSED) from error
    return content.decode("utf-8-sig")


def _tried(replies: list[Reply[ShadowDocument]]) -> list[ShadowSnapshot]:
    """Return the reports of the workers that try a configuration."""
    return [reply.document.shadow for reply in replies if reply.document and reply.document.shadow]


def _show(replies: list[Reply[ShadowDocument]], output: Output) -> None:
    found = merge_shadows(_tried(replies))
    if found is None:
        return
    if output is Output.JSON:
        show_json(to_json(found))
    else:
        for line in shadow_lines(found):
            typer.echo(line)


def _odd(replies: list[Reply[ShadowDocument]]) -> list[str]:
    """Return which workers try nothing or something else."""
    tried = {reply.worker: reply.document.shadow for reply in replies if reply.document}
    names = {worker: "nothing" if one is None else one.source for worker, one in tried.items()}
    if len(set(names.values())) < 2:
        return []
    return [f"worker {worker} tries {name}" for worker, name in names.items()]
