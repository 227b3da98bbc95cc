"""Problems of a configuration and their places: each is a value, and all of them are reported together."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as declared
from enum import Enum, StrEnum
from typing import Final

from apf_middleware.exceptions import APFError

__all__ = [
    "HIDDEN",
    "MOST_LINES",
    "Absent",
    "ConfigurationError",
    "Path",
    "Place",
    "Problem",
    "Problems",
    "Severity",
    "brief",
    "dotted",
    "is_secret",
]

MOST_LINES: Final = 200
"""The number of problems in a message; further ones are only counted there."""

HIDDEN: Final = "***"
"""It is shown instead of values that may be secrets."""

_MOST_CHARACTERS: Final = 80  # of a value in a message
_MOST_SEARCHED: Final = 4_096  # characters of a value in which a URL is looked for
_URL_PASSWORD: Final = re.compile("([?&]password=)[^&#\\s'\"]+", re.IGNORECASE)
_SECRET: Final = re.compile("password|secret|tokens?$|key$", re.IGNORECASE)

Path = tuple[str | int, ...]
"""The way from a document's root to a field: ``("spec", "rules", 0)`` is written ``spec.rules[0]``."""


class Absent(Enum):
    """A mark for the absence of a value, because None is a value in YAML."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "absent"


class Severity(StrEnum):
    """An error makes a configuration unusable; a warning means that it may not have the intended effect."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a file; document and line count from 1, and 0 means the whole."""

    file: str
    document: int = 0
    line: int = 0

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}" + (f" (document {self.document})" if self.document else "")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: which field has which value, the rule that it breaks, and the next step."""

    place: Place
    field: str
    value: object = declared(hash=False)
    rule: str
    hint: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        said = f"{self.field} is {brief(self.value)}, but " if self.field else ""
        hint = f". {self.hint}" if self.hint else ""
        return f"{self.place}: {self.severity}: {said}{self.rule}{hint}"

    def as_dict(self) -> dict[str, str | int]:
        """Return the problem for JSON; the value is shown as it would be in the message."""
        return {
            "severity": str(self.severity),
            "file": self.place.file,
            "document": self.place.document,
            "line": self.place.line,
            "field": self.field,
            "value": brief(self.value),
            "rule": self.rule,
            "hint": self.hint,
        }


def is_secret(key: object) -> bool:
    """Return whether the value of this key may be a secret, which no message shows, because errors are logged."""
    return _SECRET.search(str(key)) is not None


def brief(value: object) -> str:
    """Return the value as YAML would have it in one line, without passwords, cut to what a message has room for."""
    if isinstance(value, str):
        text = _written(_without_passwords(value)[: _MOST_CHARACTERS + 1])
    elif isinstance(value, Sequence | Mapping) and len(value) > _MOST_CHARACTERS:
        return f"{'a mapping' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    else:
        text = _without_passwords(_written(value))
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _without_passwords(text: str) -> str:
    """Return the text with URLs without what stands before their hosts, and without passwords in their queries."""
    return _URL_PASSWORD.sub(r"\1…", re.sub(r"\S+", _without_user, text[:_MOST_SEARCHED]))


def _without_user(word: re.Match[str]) -> str:
    scheme, _, rest = word[0].partition("://")
    # the last one, because a password may have a slash or an at sign
    return f"{scheme}://…@{rest.rpartition('@')[2]}" if "@" in rest else word[0]


def _written(value: object) -> str:
    """Return the value as YAML would have it in one line, with text in quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {HIDDEN if is_secret(key) else _written(one)}' for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, str) and value.isprintable():  # other text gets the escapes of Python
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def dotted(path: Iterable[str | int]) -> str:
    """Return a path as documentation writes it."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


class Problems:
    """The problems found so far; reading continues after each, so that all are reported together."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[int, Problem] = {}  # by their identities

    def __repr__(self) -> str:
        return f"Problems({len(self.errors)} errors, {len(self._found) - len(self.errors)} warnings)"

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Problem]:
        """Iterate over the problems in the order of their places."""
        return iter(sorted(self._found.values(), key=lambda problem: (problem.place, problem.field, problem.rule)))

    def error(
        self, place: Place, rule: str, *, field: str = "", value: object = Absent.ABSENT, hint: str = ""
    ) -> Problem:
        return self._added(Problem(place, field, value, rule, hint))

    def warn(
        self, place: Place, rule: str, *, field: str = "", value: object = Absent.ABSENT, hint: str = ""
    ) -> Problem:
        return self._added(Problem(place, field, value, rule, hint, Severity.WARNING))

    def _added(self, problem: Problem) -> Problem:
        self._found[id(problem)] = problem
        return problem

    def drop(self, problems: Iterable[Problem]) -> None:
        """Remove problems that were found in something that turns out not to matter."""
        for one in problems:
            self._found.pop(id(one), None)

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self._found.values() if problem.severity is Severity.ERROR)


class ConfigurationError(APFError, ValueError):
    """A configuration can't be used; ``problems`` are all of its errors and warnings, one a line in the message.

    The class is defined here and not in `exceptions`, because its parts are `Problem` objects.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:MOST_LINES]]
        left = len(self.problems) - len(lines)
        return "\n".join([*lines, *([f"… and {left} more"] if left else [])])
