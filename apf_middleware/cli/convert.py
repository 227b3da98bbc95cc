"""``apf convert``: write a configuration in another format."""

from typing import Annotated

import typer

from apf_middleware.cli.output import Paths, load_files
from apf_middleware.config.emit import Target
from apf_middleware.config.emit import convert as written
from apf_middleware.config.problems import Problems

__all__ = ["convert"]


def convert(
    paths: Paths,
    *,
    to: Annotated[Target, typer.Option("--to", help="Kubernetes' v1, or apf/v1.")] = "apf",
) -> None:
    """Read a configuration in any format, and write all of it as one.

    What is written says the imagined and suggested objects too, so it means the same anywhere. Warnings tell what is
    left out beside them. Exit status 1 if it can't be read, or if the format can't say what belongs where.
    """
    configuration = load_files(paths)
    problems = Problems()
    text = written(configuration, to, problems)
    for problem in problems:
        typer.echo(problem, err=True)
    if problems.errors:
        raise typer.Exit(1)
    typer.echo(text, nl=False)
