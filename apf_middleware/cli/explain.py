"""``apf explain``: how a configuration classifies one request, and why."""

from typing import Annotated, Final

import typer

from apf_middleware.cli.output import Output, OutputOption, load_files, parse_headers, parse_path, show_json, tell
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.described_request import DescribedRequest, explain_request

__all__ = ["explain"]

_LEAST_ARGUMENTS: Final = 3
_ANSWERS: Final = ("schema", "level", "flow")
_PLACES: Final = {"url": "URL", "client": "--client-ip"}

_Words = Annotated[
    list[str], typer.Argument(metavar="PATH... METHOD URL", help="Configuration files, then the request.")
]


def explain(
    words: _Words,
    *,
    user: Annotated[str, typer.Option(help="The user's name; without it, the request is anonymous.")] = "",
    group: Annotated[list[str] | None, typer.Option(help="A group of the user; may be repeated.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="A header, NAME:VALUE; may be repeated.")] = None,
    client_ip: Annotated[str, typer.Option("--client-ip", help="The client's address.")] = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Show which schema takes a request, why those before it don't, and its level, flow, queues and seats."""
    if len(words) < _LEAST_ARGUMENTS:
        raise typer.BadParameter("give configuration files, a method and a URL", param_hint="PATH... METHOD URL")
    paths, (method, url) = [parse_path(word) for word in words[:-2]], words[-2:]
    configuration = load_files(paths)
    headers = {name.lower(): value for name, value in reversed(parse_headers(header or []))}  # the first one counts
    request = DescribedRequest(method, url, user, tuple(group or ()), headers, client_ip)
    try:
        facts = explain_request(configuration, request)
    except InvalidValueError as error:
        place = _PLACES.get(error.name)  # None for what a function of the configuration returns
        text = f"{error.value!r}: {error.rule}" if place else str(error)
        raise typer.BadParameter(text, param_hint=place) from None
    if output is Output.JSON:
        show_json(facts)
        return
    for name, value in facts.items():
        for line in _lines(name, value):
            tell(line, "bold" if name in _ANSWERS else "")


def _lines(name: str, value: object) -> list[str]:
    """Return a fact as lines of text; none if it doesn't apply."""
    if name == "own_queue" and value:
        return ["hand       a queue of its own, unless too many flows are active"]
    if value is None or value in ([], False, "") or (name == "weight" and value == 1):
        return []
    if isinstance(value, float):
        value = f"{value:g}"
    if name == "passed_over" and isinstance(value, list):
        return ["tried before, and why they don't match:", *(f"  {one['schema']}: {one['why']}" for one in value)]
    if isinstance(value, dict):
        value = ", ".join(f"{part} {number}" for part, number in value.items() if number is not None)
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return [f"{name:<10} {value}"]
