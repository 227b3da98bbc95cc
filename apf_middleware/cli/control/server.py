"""The server on which a command works, found by options that all such commands share."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

import typer

from apf_middleware.cli.control.options import require_seconds, with_options
from apf_middleware.cli.control.outcomes import Exit, fail
from apf_middleware.cli.control.workers import Reply, SocketWorker, UrlWorker, Worker, ask_all
from apf_middleware.cli.output import parse_headers, parse_path
from apf_middleware.config.admin import DEFAULT_PATH
from apf_middleware.config.sockets import DIRECTORY_VARIABLE, SocketFile, find_sockets, is_refused, require_safe
from apf_middleware.exceptions import InvalidValueError, reason_of

__all__ = ["TOKEN_VARIABLE", "Server", "admin_address", "find_server", "for_server", "read_credentials"]

DocumentT = TypeVar("DocumentT")

TOKEN_VARIABLE: Final = "APF_TOKEN"  # noqa: S105 - the name of a variable, not a token

_RuntimeDir = Annotated[
    Path | None,
    typer.Option(
        "--runtime-dir",
        envvar=DIRECTORY_VARIABLE,
        help="The directory with the sockets of the server's workers.",
        parser=parse_path,
        metavar="PATH",
    ),
]
_App = Annotated[
    str | None, typer.Option(help="The server's admin.app, if the directory has sockets of several servers.")
]
_Url = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="The server's admin, instead of sockets, like http://127.0.0.1:8000; with its admin.path if that is set.",
    ),
]
_TokenFile = Annotated[
    Path | None, typer.Option(help=f"A file with a bearer token for --server; or the variable {TOKEN_VARIABLE}.")
]
_Header = Annotated[list[str] | None, typer.Option(help="A header for --server, like 'X-API-Key: …'; may be repeated.")]
_Timeout = Annotated[float, typer.Option(callback=require_seconds, help="Seconds to wait for each worker.")]


@dataclass(frozen=True, slots=True)
class Server:
    """The workers of one server, and how long each may take to answer; ``directory`` has their sockets."""

    name: str
    workers: tuple[Worker, ...]
    timeout: float
    directory: Path | None = None

    def renewed(self) -> "Server":
        """Return the server with the workers that it has now."""
        if self.directory is None:
            return self
        try:
            return replace(self, workers=_living(find_sockets(self.directory, self.name)))
        except OSError:
            return replace(self, workers=())

    def ask(
        self, method: str, path: str, kind: type[DocumentT], body: Mapping[str, object] | None = None
    ) -> list[Reply[DocumentT]]:
        """Send a request for a document of the class ``kind`` to all workers, and return their replies."""
        return ask_all(self.workers, method, path, kind, body, timeout=self.timeout)


def admin_address(url: str, hint: str = "URL") -> str:
    """Return the URL of a server's admin, for a URL with or without a path."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        netloc = _encoded_netloc(parts)
    except ValueError:
        usable, parts, netloc = False, urlsplit(""), ""
    if not usable:
        raise typer.BadParameter(f"{url!r} isn't like http://127.0.0.1:8000", param_hint=hint)
    if not url.isprintable() or " " in url or not parts.path.isascii():
        rule = "has characters that no URL may have, such as spaces; percent-encode those of its path"
        raise typer.BadParameter(f"{url!r} {rule}", param_hint=hint)
    if parts.username is not None or parts.query or parts.fragment:
        rule = "it must have no user, query or fragment; give credentials by options"
        raise typer.BadParameter(rule, param_hint=hint)
    return f"{parts.scheme}://{netloc}{parts.path.rstrip('/') or DEFAULT_PATH}"


def _encoded_netloc(parts: SplitResult) -> str:
    """Return the host and port in ASCII; raise ValueError if there can't be such a host."""
    host = (parts.hostname or "").encode("idna").decode()
    if parts.netloc.isascii():
        return parts.netloc
    return host if parts.port is None else f"{host}:{parts.port}"


def find_server(
    runtime_dir: Path | None,
    app: str | None,
    url: str | None,
    token_file: Path | None,
    timeout: float,
    *,
    header: Sequence[str] | None = None,
) -> Server:
    """Return the server that the options name; end the command if they name none."""
    if url is not None:
        address = admin_address(url, "--server")
        return Server(url, (UrlWorker(address, read_credentials(token_file, header or ())),), timeout)
    if runtime_dir is None:
        rule = f"which server? Give --runtime-dir (or the variable {DIRECTORY_VARIABLE}), or --server URL"
        raise typer.BadParameter(rule, param_hint="--runtime-dir")
    files = _sockets(runtime_dir, app)
    workers = _living(files)
    if not workers:
        dead = f"; {len(files)} left by workers that have ended" if files else ""
        what = f"no worker{f' of {app}' if app else ''} has a socket in {runtime_dir}{dead}"
        fail(f"{what}: does the server run, with admin.socket or {DIRECTORY_VARIABLE}?", Exit.UNREACHED)
    return Server(files[0].app, workers, timeout, runtime_dir)


def _living(files: Sequence[SocketFile]) -> tuple[Worker, ...]:
    """Return the workers that still listen."""
    return tuple(SocketWorker(one) for one in files if not is_refused(one.path))


def _sockets(directory: Path, app: str | None) -> Sequence[SocketFile]:
    """Return the sockets of one server."""
    try:
        require_safe(directory)
        files = find_sockets(directory, app)
    except InvalidValueError as error:
        given = DIRECTORY_VARIABLE if os.environ.get(DIRECTORY_VARIABLE) == str(directory) else "--runtime-dir"
        fail(str(InvalidValueError(given, error.value, error.rule, error.hint)), Exit.UNREACHED)
    except OSError as error:
        fail(f"{directory} can't be read: {reason_of(error)}", Exit.UNREACHED)
    apps = sorted({one.app for one in files})
    if len(apps) > 1:
        raise typer.BadParameter(f"several servers have sockets there: {', '.join(apps)}", param_hint="--app")
    return files


def read_credentials(token_file: Path | None, given: Sequence[str]) -> dict[str, str]:
    """Return the headers that are ``given``, with a bearer token from a file or from the environment."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if token_file is not None:
        try:
            with token_file.open() as file:
                token = file.read(_MOST_CHARACTERS).strip()
        except (OSError, UnicodeError) as error:
            raise typer.BadParameter(f"it can't be read: {error}", param_hint="--token-file") from None
    if not (token.isprintable() and token.isascii()):
        raise typer.BadParameter("a token must be printable ASCII", param_hint=f"--token-file or {TOKEN_VARIABLE}")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= parse_headers(given)
    if not all(value.isprintable() and value.isascii() for value in headers.values()):
        raise typer.BadParameter("a header's value must be printable ASCII", param_hint="--header")
    return headers


_MOST_CHARACTERS: Final = 65_536  # of the file of a token: it may be a device that never ends

_OPTIONS: Final[dict[str, tuple[Any, object]]] = {
    "runtime_dir": (_RuntimeDir, None),
    "app": (_App, None),
    "url": (_Url, None),
    "token_file": (_TokenFile, None),
    "header": (_Header, None),
    "timeout": (_Timeout, 5.0),
}

for_server: Final = with_options("server", _OPTIONS, find_server)
"""Replaces the parameter ``server`` of a command by options that name the server."""
