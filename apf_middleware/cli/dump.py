"""``apf dump``: show the dumps of a running server's admin.

Credentials go to the named server and to no other, so redirects aren't followed. An answer is an admin's only if it has
the admin's header, because a web app may answer any request with 200 and its home page.
"""

import http.client
import json
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn
from urllib.parse import urlencode, urljoin

import typer

from apf_middleware.asgi.admin.dumps import Order
from apf_middleware.asgi.admin.protocol import MARK
from apf_middleware.cli.control.options import require_seconds
from apf_middleware.cli.control.outcomes import Exit, fail
from apf_middleware.cli.control.server import TOKEN_VARIABLE, admin_address, read_credentials
from apf_middleware.cli.control.workers import GIVE_CREDENTIALS, UrlWorker, describe_failure, send
from apf_middleware.cli.output import Output, OutputOption, show_json
from apf_middleware.config.admin import DEFAULT_PATH

__all__ = ["dump"]

_OFF: Final = "or its admin is off: spec.admin.groups of the Server document lists who may view"


_What = Literal["levels", "queues", "requests", "configuration", "flows", "fleet"]
_PAGES: Final = {"levels": "dump_priority_levels", "queues": "dump_queues", "requests": "dump_requests"}
"""The pages that have other names than their dumps."""


def dump(
    url: Annotated[
        str,
        typer.Argument(help=f"The server, like http://127.0.0.1:8000; with its admin's path if not {DEFAULT_PATH}."),
    ],
    what: Annotated[_What, typer.Argument(help="What to show.")] = "levels",
    *,
    token_file: Annotated[
        Path | None, typer.Option(help=f"A file with a bearer token; or the variable {TOKEN_VARIABLE}.")
    ] = None,
    header: Annotated[list[str] | None, typer.Option(help="A header, NAME:VALUE; may be repeated.")] = None,
    details: Annotated[bool, typer.Option("--details", help="Add the user and the details of each request.")] = False,
    by: Annotated[Order, typer.Option(help="The number by which flows are sorted.")] = "work",
    timeout: Annotated[float, typer.Option(callback=require_seconds, help="Seconds to wait for an answer.")] = 10.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the levels, queues, requests, configuration, heaviest flows, or members of the fleet of a running server.

    Exit status 1 if the server can't be asked or doesn't answer.
    """
    admin = UrlWorker(admin_address(url), read_credentials(token_file, header or ()))
    query = {"format": str(output)}
    if details:
        query["includeRequestDetails"] = "1"
    if what == "flows":
        query["by"] = by
    body = _fetch(admin, f"/{_PAGES.get(what, what)}?{urlencode(query)}", timeout)
    if output is Output.JSON:
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            _fail(f"{url} answers, but not with JSON")
        show_json(document)
    else:
        typer.echo(body, nl=False)


def _fetch(admin: UrlWorker, path: str, timeout: float) -> str:
    """Return the text of the answer; end the command if anything fails."""
    url, connection = f"{admin.url}{path}", admin.connect(timeout)
    try:
        with send(connection, admin, ("GET", path, None)) as response:
            if not 200 <= response.status < 300:
                _fail(_refusal(url, response, shown=bool(admin.headers)))
            if response.getheader(MARK) is None:
                _fail(f"{url} answers, but isn't apf's admin: it is another server, {_OFF}")
            return response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError) as error:
        _fail(f"{urljoin(url, '/')[:-1]} can't be asked: {describe_failure(error)}")
    finally:
        connection.close()


def _refusal(url: str, response: http.client.HTTPResponse, *, shown: bool) -> str:
    """Explain an answer other than 200, with the next step."""
    status = response.status
    if status == 401:
        what = "doesn't accept these credentials" if shown else "requires credentials"
        return f"{url} {what}: {GIVE_CREDENTIALS}"
    if status == 403 and response.getheader(MARK) is not None:
        return f"{url} doesn't authorize you: spec.admin.groups of its Server document lists who may view"
    if status == 404:
        return f"{url} doesn't exist: the server has no apf_middleware, another admin path, {_OFF}"
    if 300 <= status < 400:
        return f"{url} redirects to {response.getheader('location', 'nowhere')!r}: name that server, if you trust it"
    return f"{url} answers {status} {response.reason}"


def _fail(message: str) -> NoReturn:
    fail(message, Exit.REFUSED)
