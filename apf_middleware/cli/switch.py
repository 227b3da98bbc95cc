"""``apf switch``: limit requests on a running server, only observe them, or be off."""

from typing import Annotated

import typer

from apf_middleware.asgi.admin.documents import ModeDocument
from apf_middleware.cli.control.outcomes import end, require_success
from apf_middleware.cli.control.server import Server, for_server
from apf_middleware.cli.control.workers import page
from apf_middleware.cli.output import Output, OutputOption, show_json
from apf_middleware.mode import Mode

__all__ = ["switch"]

_Mode = Annotated[Mode | None, typer.Argument(help="The mode; without it, the present one is shown.")]


@for_server
def switch(server: Server, *, mode: _Mode = None, output: OutputOption = Output.TEXT) -> None:
    """Limit requests in every worker (on), let them run and show what would happen (observe), or only count (off).

    What waits runs at once, and nothing is rejected by the change.
    """
    if mode is None:
        replies = server.ask("GET", page("mode"), ModeDocument)
    else:
        replies = server.ask("PUT", page("mode"), ModeDocument, {"mode": mode})
    require_success(replies)
    found = [one.document for one in replies if one.document is not None]
    modes = list(dict.fromkeys(one.mode for one in found))
    passed = {name: sum(one.passed.get(name, 0) for one in found) for name in ("observe", "off")}
    if output is Output.JSON:
        show_json({"modes": modes, "passed": passed})
    else:
        typer.echo(f"mode: {', '.join(modes)}")
        for name, number in passed.items():
            if number:
                typer.echo(f"passed in the mode {name}: {number:,}")
    end(replies, odd=() if len(modes) == 1 else [f"workers have different modes: {', '.join(modes)}"])
