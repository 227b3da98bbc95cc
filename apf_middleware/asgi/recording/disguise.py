"""What a recording shows of a request: the facts that the configuration reads, with names hashed or plain.

A path is hashed segment by segment. A segment stays readable if it is a literal in a path of the configuration or in a
route of the app, as far as routes have become known: the frameworks write the route of a request into its scope.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from starlette.types import Scope

from apf_middleware.asgi.recording.needed_facts import SELECTOR, NeededFacts
from apf_middleware.classification import Identity
from apf_middleware.classification.matching import SERVICE_ACCOUNT
from apf_middleware.classification.query import QueryParameters
from apf_middleware.recordings import Pseudonyms

__all__ = ["Disguise", "route_of"]

_MOST_WORDS: Final = 10_000
_MOST_REPEATED: Final = 8  # values of one parameter
_LONGEST: Final = 2048  # characters of a path, header or name; the rest is cut off
_NAMING_TERM: Final = re.compile(r"((?:metadata\.name|spec\.nodeName)(?:!=|==|=))")


class Disguise:
    """Shows requests in a recording with the key of ``pseudonyms``; names are as they are if ``are_plain``."""

    def __init__(self, facts: NeededFacts, pseudonyms: Pseudonyms, *, are_plain: bool = False) -> None:
        self._facts = facts
        self._hash = pseudonyms.of
        self._are_plain = are_plain
        self._words: set[str] = set(facts.words)

    def adopt(self, facts: NeededFacts) -> None:
        """Show what another configuration reads from now on."""
        self._facts = facts
        self._words |= facts.words

    def name(self, name: str) -> str:
        """Return the name of a flow or an address."""
        return name[:_LONGEST] if self._are_plain else self._hash(name)

    def user(self, identity: Identity) -> str:
        """Return the name of a caller; of a service account, the namespace stays readable."""
        name = identity.name
        if self._are_plain or self._facts.names_user(name):
            return name[:_LONGEST]
        if name.startswith(SERVICE_ACCOUNT):
            namespace, colon, account = name.removeprefix(SERVICE_ACCOUNT).rpartition(":")
            return f"{SERVICE_ACCOUNT}{namespace}{colon}{self._hash(account)}"
        return self._hash(name)

    def groups(self, identity: Identity) -> tuple[str, ...]:
        """Return the groups of a caller."""
        names = self._facts.names_group
        return tuple(one[:_LONGEST] if self._are_plain or names(one) else self._hash(one) for one in identity.groups)

    def headers(self, headers: Iterable[Iterable[bytes]]) -> dict[str, str]:
        """Return the headers that the configuration reads, by name; the first of several counts."""
        wanted, found = self._facts.headers, dict[str, str]()
        for raw, content in headers if wanted else ():
            name = str(raw, "latin-1").lower()
            if name in wanted and name not in found:
                value = str(content, "latin-1")
                shows = self._facts.shows_header(name, value) or (self._are_plain and not self._facts.is_secret(name))
                found[name] = value[:_LONGEST] if shows else self._hash(value)
        return found

    def host(self, headers: Iterable[Iterable[bytes]]) -> str:
        """Return the host, if the configuration reads hosts; below a wildcard that it names, only the rest is shown."""
        if not self._facts.reads_hosts:
            return ""
        host = next((str(value, "latin-1") for name, value in headers if name == b"host"), "")[:_LONGEST]
        if self._are_plain or not host or host in self._facts.hosts:
            return host
        first, dot, rest = host.partition(".")
        return f"{self._hash(first)}{dot}{rest}" if f"*.{rest}" in self._facts.hosts else self._hash(host)

    def path(self, path: str, query: bytes, route: str = "") -> str:
        """Return a path with the query parameters that the configuration reads; ``route`` is its template."""
        shown = path[:_LONGEST] if self._are_plain else self._hide_segments(path, route)
        shown = shown.replace("%", "%25").replace("?", "%3F")  # as in a URL: the server has decoded it
        parameters = self._parameters(query)
        if not parameters:
            return shown
        said = "&".join(f"{quote(name, safe='')}={quote(value, safe='~')}" for name, value in parameters)
        return f"{shown}?{said}"

    def _parameters(self, query: bytes) -> list[tuple[str, str]]:
        """Return the first value of each parameter, and those after it that a rule names and may ask for."""
        if not query:
            return []
        parameters, found = QueryParameters(query), list[tuple[str, str]]()
        for name in self._facts.query:
            first, *more = parameters.every(name) or ("",)
            if first or name in parameters:
                named = dict.fromkeys(value for value in more if self._facts.shows_parameter(name, value))
                found += [(name, self._parameter(name, value)) for value in [first, *named][:_MOST_REPEATED]]
        return found

    def _parameter(self, name: str, value: str) -> str:
        if self._are_plain or self._facts.shows_parameter(name, value):
            return value[:_LONGEST]
        return self._hide_selector(value) if name == SELECTOR else self._hash(value)

    def _hide_selector(self, selector: str) -> str:
        """Return a selector of fields in which the names of objects and nodes are hashed, and all other terms, too."""
        terms = (_NAMING_TERM.match(term) or term for term in selector[:_LONGEST].split(","))
        return ",".join(
            self._hash(term) if isinstance(term, str) else f"{term[1]}{self._hash(term.string[term.end() :])}"
            for term in terms
        )

    def _hide_segments(self, path: str, route: str) -> str:
        words, segments = self._words, path[:_LONGEST].split("/")
        template = route.split("/")
        if len(template) == len(segments):
            shows = ["{" not in one for one in template]
        else:
            shows = [one in words for one in segments]
        return "/".join(one if shown else self._hash(one) for one, shown in zip(segments, shows, strict=True))

    def learn(self, route: str) -> None:
        """Let the literal segments of a route of the app be readable from now on."""
        if len(self._words) < _MOST_WORDS:
            self._words.update(one for one in route.split("/") if "{" not in one)


def route_of(scope: Scope, root: str, path: str) -> str:
    """Return the template of the route that a framework has found for a request; empty if it is unknown.

    ``root`` is the root path with which the request came: where an app is mounted, that of the scope is longer.
    """
    try:
        template = scope.get("path_template")  # Litestar
        if not isinstance(template, str):
            template = getattr(scope.get("route"), "path", None)  # Starlette and FastAPI
            mount = str(scope.get("root_path") or "").removeprefix(root)
            template = f"{mount}{template}" if isinstance(template, str) else ""
    except Exception:  # noqa: BLE001 - objects of a framework; a recording must not break a request
        return ""
    return template if len(template) <= _LONGEST and _fits(template, path) else ""


def _fits(template: str, path: str) -> bool:
    """Return whether a path has the literals of a template: a mount that has found no route is another template."""
    segments = path.split("/")
    for number, wanted in enumerate(template.split("/")):
        if wanted.endswith(":path}"):
            return number < len(segments)
        if number >= len(segments) or ("{" not in wanted and wanted != segments[number]):
            return False
    return template.count("/") == path.count("/")
