"""The command line: each command has a module of the same name."""

from inspect import getdoc
from typing import Annotated

import typer

from apf_middleware import __version__, is_compiled
from apf_middleware.cli.check import check
from apf_middleware.cli.collisions import collisions
from apf_middleware.cli.convert import convert
from apf_middleware.cli.dump import dump
from apf_middleware.cli.explain import explain
from apf_middleware.cli.gate import gates
from apf_middleware.cli.queue import queues
from apf_middleware.cli.recommend import recommend
from apf_middleware.cli.replay import replay
from apf_middleware.cli.schema import schema
from apf_middleware.cli.simulate import simulate
from apf_middleware.cli.switch import switch

__all__ = ["app", "options"]

app: typer.Typer = typer.Typer(
    help="API Priority and Fairness for Python web servers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help and errors as plain lines, which scripts can read and grep as well as people
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        typer.echo(f"apf {__version__} ({'compiled' if is_compiled else 'pure Python'})")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Operate and plan API Priority and Fairness for Python web servers."""


app.add_typer(queues, name="queue")
app.add_typer(gates, name="gate")
for _command in (check, explain, convert, schema, simulate, recommend, collisions, replay, dump, switch):
    app.command()(_command)
for _group in (app, queues, gates):
    for _info in _group.registered_commands:  # typer would use only the first line of the docstring
        _info.short_help = " ".join((getdoc(_info.callback) or "").partition("\n\n")[0].split())
