"""``apf convert``: write a configuration in another format."""

from typing import Annotated

import typer

from apf_middleware.cli.output import Paths, load_files
from apf_middleware.config.emit import Target
from apf_middleware.config.emit import convert as to_text
from apf_middleware.config.problems import Problems

__all__ = ["convert"]


def convert(
    paths: Paths,
    *,
    to: Annotated[Target, typer.Option("--to", help="Kubernetes' v1, or apf/v1.")] = "apf",
) -> None:
    """Read a configuration in any formats, and write all of it in one.

    The result includes the mandatory and suggested objects, so that it means the same anywhere. Warnings name what is
    omitted. Exit status 1 if the configuration can't be read, or if the format can't express it.
    """
    configuration = load_files(paths)
    problems = Problems()
    text = to_text(configuration, to, problems)
    for problem in problems:
        typer.echo(problem, err=True)
    if problems.errors:
        raise typer.Exit(1)
    typer.echo(text, nl=False)
