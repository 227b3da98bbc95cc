"""Path templates of web apps, Kubernetes' URL patterns, and the first segments by which both are found.

A template has literal segments, ``{name}`` or ``*`` for one segment that isn't empty, and ``/*`` at the end for
everything below and the path itself; ``*`` and ``/*`` alone match every path. The *head* of a path is its first
segment. Most patterns only match paths with certain heads, so a path is only compared with the patterns for its head.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlparse

from apf_middleware.copying import Value
from apf_middleware.exceptions import InvalidValueError

__all__ = [
    "ANY_SEGMENT",
    "UNSEEN_END",
    "PathTemplate",
    "compile_templates",
    "head_of",
    "heads_of_templates",
    "heads_of_urls",
    "is_parameter",
    "parse_template",
    "visible_path",
]

ANY_SEGMENT = "*"
"""A segment of a template that matches any segment, without a name."""

UNSEEN_END: Final = "\n"
"""An end of a path that is left out. Starlette's routes end with ``$``, which also matches before a line feed: so
``/a%0A`` reaches the route ``/a``, and must not evade the rules for that path."""


@dataclass(frozen=True, slots=True)
class PathTemplate(Value):
    """A parsed template: ``{name}`` is kept among ``segments``; ``below`` means a ``/*`` at the end."""

    segments: tuple[str, ...]
    below: bool

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return tuple(segment[1:-1] for segment in self.segments if is_parameter(segment))

    def regex(self, wanted: str | None = None) -> str:
        """Return the regex for the whole path; the segment of the parameter ``wanted`` is its capturing group."""
        if self.below and not self.segments:
            return "(?s:.*)"  # also the path of OPTIONS *, which has no slash
        parts = []
        for segment in self.segments:
            if is_parameter(segment) and segment[1:-1] == wanted:
                parts.append("/([^/]+)")
            elif segment == ANY_SEGMENT or is_parameter(segment):
                parts.append("/[^/]+")
            else:
                parts.append("/" + re.escape(segment))
        unseen = UNSEEN_END + "?" if self.segments[-1:] == ("",) else ""
        return "".join(parts) + (r"(?s:/.*)?" if self.below else unseen)


def visible_path(path: str) -> str:
    """Return a path as the routes of all frameworks see it.

    A line feed that is a whole segment stays: it may be the value of a parameter, and a template that ends with a slash
    matches it, too.
    """
    if path.endswith(UNSEEN_END) and not path.endswith("/" + UNSEEN_END):
        path = path.removesuffix(UNSEEN_END)
    if path.startswith("/") or path == ANY_SEGMENT:
        return path
    # Servers pass a target in absolute form on as it is, and some anything else. Quart takes the path out of it.
    try:
        found = urlparse(path).path
    except ValueError:
        return path
    return found if found.startswith("/") else f"/{found}"


def is_parameter(segment: str) -> bool:
    """Return whether a segment of a template is a named parameter."""
    return segment[:1] == "{"


def parse_template(template: object) -> PathTemplate:
    """Return the parts of a template, or raise InvalidValueError."""
    if not isinstance(template, str) or not template.startswith("/"):
        if template == ANY_SEGMENT:
            return PathTemplate((), below=True)
        raise InvalidValueError("path template", template, "it must be * or begin with /")
    segments = template[1:].split("/")
    below = segments[-1] == ANY_SEGMENT
    parsed = PathTemplate(tuple(segments[:-1] if below else segments), below=below)
    for segment in parsed.segments:
        if segment.startswith(("{", ":", "<")):  # the latter are parameters of other frameworks
            if segment[0] + segment[-1] != "{}" or not segment[1:-1].isidentifier():
                rule = f"{segment!r} must be a name in braces without anything before or after it; /* matches all below"
                raise InvalidValueError("path template", template, rule)
        elif segment != ANY_SEGMENT and set(segment) & set("*{}"):
            raise InvalidValueError("path template", template, f"in {segment!r}, * or {{name}} must be a whole segment")
    if len(set(parsed.parameters)) < len(parsed.parameters):
        raise InvalidValueError("path template", template, "each parameter must have a name of its own")
    return parsed


def compile_templates(templates: Iterable[str]) -> re.Pattern[str]:
    """Return one regex that matches what any of these templates matches."""
    return re.compile("|".join(f"(?:{parse_template(template).regex()})" for template in templates))


def head_of(path: str) -> str:
    """Return the first segment."""
    return path[1:].partition("/")[0]


def heads_of_templates(templates: Iterable[str]) -> frozenset[str] | None:
    """Return the heads of all paths that these templates match; None if any head can match."""
    heads = set()
    for template in templates:
        segments = parse_template(template).segments
        if not segments or segments[0] == ANY_SEGMENT or is_parameter(segments[0]):
            return None
        heads.add(segments[0])
        if segments == ("",):
            heads.add(UNSEEN_END)
    return frozenset(heads)


def heads_of_urls(urls: Iterable[str]) -> frozenset[str] | None:
    """Return the heads of all paths that these Kubernetes patterns match; None if any head can match."""
    heads = set()
    for url in urls:
        beginning = url.removesuffix("*").removesuffix("/") + "/"
        if beginning == "/" or not url.startswith("/"):
            return None
        heads |= {head_of(beginning), head_of(url)}  # the path may also be the pattern itself, including the star
    return frozenset(heads)
