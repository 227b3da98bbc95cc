"""The configuration in force, as YAML that can be loaded again, with what is odd about it told above it.

Writing YAML takes long, so it is done in a thread, and once for each configuration.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from anyio import Lock
from anyio.to_thread import run_sync

from apf_middleware.asgi.admin.notes import View
from apf_middleware.asgi.admin.words import Clock, printable
from apf_middleware.config import Configuration, Problem, convert
from apf_middleware.config.emit import documents
from apf_middleware.config.problems import Problems

__all__ = ["ConfigurationDump"]

_NOTHING_ODD: Final = "# No warnings.\n"


class ConfigurationDump:
    """Writes the configuration; what was written last is kept as long as it is in force."""

    __slots__ = ("_last", "_lock", "_written")

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: Configuration | None = None
        self._written: dict[bool, tuple[str, tuple[Problem, ...]]] = {}

    async def __call__(self, view: View, clock: Clock, query: Mapping[str, str], *, as_json: bool) -> bytes:  # noqa: ARG002
        configuration, problems = view.configuration, tuple(view.problems)
        if configuration is not self._last:
            self._last, self._written = configuration, {}
        kept = self._written  # of this configuration, also if another comes in force meanwhile
        if as_json not in kept:
            async with self._lock:  # requests that come together take one thread and not one each
                if as_json not in kept:
                    kept[as_json] = await run_sync(partial(_write, configuration, as_json=as_json))
        text, unsaid = kept[as_json]
        told = (*problems, *unsaid)
        if as_json:
            told_json = json.dumps([problem.as_dict() for problem in told])
            return f'{{"problems": {told_json}, "documents": {text}}}\n'.encode()
        return (_as_comments(told) + text).encode()


def _write(configuration: Configuration, *, as_json: bool) -> tuple[str, tuple[Problem, ...]]:
    """The documents, and what they can't say."""
    unsaid = Problems()
    if as_json:
        text = json.dumps(list(documents(configuration, "apf", unsaid)), default=str)
    else:
        text = convert(configuration, "apf", unsaid)
    return text, tuple(unsaid)


def _as_comments(problems: Sequence[Problem]) -> str:
    if not problems:
        return _NOTHING_ODD
    return "".join(f"# {printable(str(problem), most=1000)}\n" for problem in problems)
