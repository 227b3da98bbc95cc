"""``apf convert``: write a configuration in another dialect."""

from typing import Annotated

import typer

from apf_middleware.cli.output import Paths, require_paths
from apf_middleware.config import ConfigurationError, load
from apf_middleware.config.emit import Target, emit

__all__ = ["convert"]


def convert(
    paths: Paths,
    *,
    to: Annotated[Target, typer.Option("--to", help="Kubernetes' v1, or apf/v1.")] = "apf",
) -> None:
    """Read a configuration in any dialect, and write all of it as one.

    What is written says the imagined and suggested objects too, so it means the same anywhere. Exit status 1 if it
    can't be read, or if the dialect can't say all of it.
    """
    require_paths(paths)
    try:
        typer.echo(emit(load(*paths), to), nl=False)
    except ConfigurationError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from error
