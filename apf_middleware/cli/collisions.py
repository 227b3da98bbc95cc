"""``apf collisions``: the probability that heavy flows cover the whole hand of a light flow."""

import json
from typing import Annotated

import typer

from apf_middleware.cli.output import Output, OutputOption
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import collision_probabilities, entropy_bits

__all__ = ["collisions"]


def collisions(
    *,
    queues: Annotated[int, typer.Option(help="Queues of the level.")] = 64,
    hand: Annotated[int, typer.Option(help="Queues that one flow may use.")] = 8,
    elephants: Annotated[int, typer.Option(help="The number of heavy flows.")] = 16,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show how likely the hands of 1, 2, … heavy flows (elephants) cover the whole hand of a light one (a mouse)."""
    try:
        probabilities = collision_probabilities(queues, hand, elephants)
    except InvalidValueError as error:
        raise typer.BadParameter(str(error)) from error
    if output is Output.JSON:
        typer.echo(json.dumps([{"elephants": n, "covered": p} for n, p in enumerate(probabilities, 1)]))
        return
    typer.echo(f"{queues} queues, hands of {hand}, {entropy_bits(queues, hand)} bits of entropy")
    typer.echo("elephants  a mouse is covered with probability")
    for number, probability in enumerate(probabilities, 1):
        typer.echo(f"{number:9}  {probability:.3g}")
