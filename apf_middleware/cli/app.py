"""The command line: each command has a module of the same name, which is imported when the command is used."""

import gc
from collections.abc import Mapping
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from apf_middleware import __version__, is_compiled

__all__ = ["app", "options"]

_COMMANDS: Final[Mapping[str, str]] = {
    "check": "check",
    "explain": "explain",
    "convert": "convert",
    "schema": "schema",
    "simulate": "simulate",
    "recommend": "recommend",
    "collisions": "collisions",
    "replay": "replay",
    "dump": "dump",
    "switch": "switch",
    "console": "console",
    "record": "record",
    "queue": "queues",
    "gate": "gates",
    "shadow": "shadows",
}
"""The modules of the commands, in the order of the help, each with the name of its command or of its group."""


class _Commands(TyperGroup):
    """Commands that are imported on first use: together they import the whole package, and one needs a part of it."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer has its context in several places
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - as above
        # For an unknown name typer proposes similar ones of those that it has.
        for name in [cmd_name] if cmd_name in _COMMANDS else _COMMANDS:
            if name not in self.commands:
                self.add_command(_imported(name), name)
        return super().get_command(ctx, cmd_name)


def _new_app(group: type[TyperGroup]) -> typer.Typer:
    return typer.Typer(
        cls=group,
        help="API Priority and Fairness for Python web servers.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # help and errors as plain lines, which scripts can read and grep as well as people
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _imported(name: str) -> Any:  # noqa: ANN401 - as above
    """Import a module and return its command, or its group of commands, in the form that typer runs."""
    gc.disable()  # what an import creates stays; to search it for garbage takes a tenth of the time of a short command
    try:
        found = getattr(import_module(f"apf_middleware.cli.{name}"), _COMMANDS[name])
    finally:
        gc.enable()
    parent = _new_app(TyperGroup)
    parent.callback()(options)
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name)
        commands = found.registered_commands
    else:
        parent.command(name)(found)
        commands = parent.registered_commands
    for one in commands:  # typer would use only the first line of the docstring
        one.short_help = " ".join((getdoc(one.callback) or "").partition("\n\n")[0].split())
    group: Any = get_command(parent)
    return group.commands[name]


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        typer.echo(f"apf {__version__} ({'compiled' if is_compiled else 'pure Python'})")
        raise typer.Exit


def options(
    *,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Operate and plan API Priority and Fairness for Python web servers."""


app: typer.Typer = _new_app(_Commands)
app.callback()(options)
