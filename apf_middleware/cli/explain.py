"""``apf explain``: how a configuration classifies one request, and why."""

import re
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

import typer

from apf_middleware.classification import ANONYMOUS, Explanation, Identity, RequestDigest
from apf_middleware.classification.kubernetes import is_served_without_seats
from apf_middleware.cli.output import Output, OutputOption, load_files, parse_headers, show_json, tell
from apf_middleware.config import Configuration
from apf_middleware.config.build import (
    derive_classifier,
    derive_criticality,
    derive_limits,
    derive_resolver,
    derive_settings,
)
from apf_middleware.config.gating import Gating
from apf_middleware.runtime import QueueNaming, UnknownQueue

__all__ = ["explain"]

_SERVICE_ACCOUNT: Final = re.compile(r"system:serviceaccount:([^:]+):[^:]+")
_SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
_AUTHENTICATED: Final = "system:authenticated"
_LEAST_ARGUMENTS: Final = 3
_ANSWERS: Final = ("schema", "level", "flow")

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
    paths, (method, url) = [Path(word) for word in words[:-2]], words[-2:]
    configuration = load_files(paths)
    headers = {name.lower(): value for name, value in reversed(parse_headers(header or []))}  # the first one counts
    digest = _digest(configuration, (method, url), _identity(user, group or []), headers, client_ip)
    if configuration.server.resolver == "kubernetes" and is_served_without_seats(digest):
        facts = _about(digest) | {"served": "at once, without a seat, like all long-running requests except watches"}
    else:
        facts = _explain(configuration, digest, derive_classifier(configuration).explain(digest))
    if output is Output.JSON:
        show_json(facts)
        return
    for name, value in facts.items():
        for line in _lines(name, value):
            tell(line, "bold" if name in _ANSWERS else "")


def _identity(user: str, groups: list[str]) -> Identity:
    """Return the user as a cluster's authentication makes it, with the groups that follow from the name."""
    if user in ("", ANONYMOUS.name):
        return Identity(ANONYMOUS.name, tuple(dict.fromkeys((*groups, *ANONYMOUS.groups))))
    account = _SERVICE_ACCOUNT.fullmatch(user)
    implied = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{account[1]}") if account else ()
    return Identity(user, tuple(dict.fromkeys((*groups, *implied, _AUTHENTICATED))))


def _digest(
    configuration: Configuration, request: tuple[str, str], identity: Identity, headers: dict[str, str], client_ip: str
) -> RequestDigest:
    method, url = request
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise typer.BadParameter(f"{url!r} is no URL: {error}", param_hint="URL") from None
    path = parts.path or "/"
    if not path.startswith("/"):
        raise typer.BadParameter(f"the path of {url!r} doesn't begin with a slash", param_hint="URL")
    query = dict(reversed(parse_qsl(parts.query, keep_blank_values=True)))  # the first one counts
    resolution = derive_resolver(configuration)(method.upper(), path, query)
    digest = RequestDigest(
        identity=identity,
        verb=resolution.verb,
        path=path,
        method=method.upper(),
        resource=resolution.resource,
        host=host or headers.get("host", ""),
        headers=headers,
        query=query,
        path_parameters=resolution.path_parameters,
        client_address=client_ip,
    )
    digest.criticality = derive_criticality(configuration)(digest)
    return digest


def _explain(configuration: Configuration, digest: RequestDigest, explanation: Explanation) -> dict[str, object]:
    found = explanation.classification
    placed = QueueNaming(configuration, lambda _: False).place(None, digest, found)  # no proxy is involved here
    if isinstance(placed, UnknownQueue):
        return {"rejected": f"{placed.status}, {placed.reason}", "schema": found.schema}
    found = placed
    level = configuration.levels[found.level]
    limits = derive_limits(configuration)[found.level]
    settings = derive_settings(level, limits)
    # borrowing can't exceed the server's seats
    most = min(limits.max, max(limits.nominal, configuration.server.largest_total))
    dealer = None if settings.exact else settings.dealer()
    return _about(digest) | {
        "schema": found.schema,
        "level": found.level,
        "flow": found.flow,
        "weight": found.weight,
        "hand": list(dealer.deal(found.entropy)) if dealer else [],
        "own_queue": settings.exact > 0,
        "seats": {"nominal": limits.nominal, "min": limits.min, "max": None if level.exempt else most},
        "gates": list(Gating(configuration).names(digest, found)),
        "exempt": level.exempt,
        "fallback": explanation.fallback,
        "passed_over": [{"schema": name, "why": why} for name, why in explanation.passed_over],
    }


def _about(digest: RequestDigest) -> dict[str, object]:
    resource = digest.resource
    return {
        "user": digest.identity.name,
        "groups": list(digest.identity.groups),
        "verb": digest.verb,
        "resource": "/".join(filter(None, (resource.resource, resource.subresource))) if resource else None,
        "namespace": resource.namespace if resource else None,
    }


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
