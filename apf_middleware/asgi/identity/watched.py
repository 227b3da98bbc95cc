"""Files with tokens or keys that are read again when they change.

If a changed file is unreadable or invalid, the previous content stays in force and one warning is logged: a typing
error must neither lock all callers out nor fill the log. At the start there is no previous content, so an invalid file
is an error then.
"""

import logging
import os
import stat
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from apf_middleware.config.files import start_of
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.log import log_event

__all__ = ["MAX_BYTES", "BrokenLineError", "WatchedFile"]

MAX_BYTES: Final = 16 * 2**20
"""The maximum size of a file, in bytes."""

_Content = TypeVar("_Content")
_Look = tuple[int, ...]  # metadata that changes when a file does
_NO_FILE: Final[_Look] = ()


class BrokenLineError(ValueError):
    """A file is invalid: the broken rule, and its line (0 for the whole file). Internal to the authenticators."""

    def __init__(self, rule: str, line: int = 0) -> None:
        super().__init__(rule, line)
        self.rule = rule
        self.line = line


class WatchedFile(Generic[_Content]):
    """The content of a file, parsed by ``read``, which raises BrokenLineError for invalid content.

    It ``is_failing`` while the file could not be read the last time.
    """

    __slots__ = ("_look", "_name", "_read", "content", "failures", "is_failing", "path")

    def __init__(self, name: str, path: str, read: Callable[[bytes], _Content]) -> None:
        self._name = name
        self._read = read
        self.path: str = path
        self.failures: int = 0
        self.is_failing: bool = False
        self._look = _NO_FILE
        try:
            self.content: _Content = self._taken()
        except BrokenLineError as error:
            rule = f"line {error.line}: {error.rule}" if error.line else error.rule
            raise InvalidValueError(name, path, rule, "Fix the file") from None
        except OSError as error:
            hint = ". ".join(filter(None, ("Check path and permissions", start_of(path))))
            raise InvalidValueError(name, path, f"it must be readable: {error.strerror or error}", hint) from None

    def __repr__(self) -> str:
        return f"WatchedFile({self.path!r}, failures={self.failures})"

    def refresh(self) -> bool:
        """Read the file again if its metadata has changed, and return whether its content is different."""
        try:
            seen = _look_of(os.stat(self.path))  # noqa: PTH116 - avoids an object for each call
        except (OSError, ValueError):
            seen = _NO_FILE
        if seen == self._look:
            return False
        self._look = seen
        before = self.content
        try:
            self.content = self._taken()
            self.is_failing = False
        except BrokenLineError as error:
            self._tell(f"{self.path}:{error.line}" if error.line else self.path, error.rule)
        except OSError as error:
            self._tell(self.path, f"it must be readable: {error.strerror or error}")
        return self.content != before

    def _taken(self) -> _Content:
        # The type is checked before the file is opened, because opening a pipe would block until it has a writer.
        if not stat.S_ISREG(os.stat(self.path).st_mode):  # noqa: PTH116
            raise BrokenLineError("it must be a regular file")
        with open(self.path, "rb") as file:  # noqa: PTH123
            # The metadata is taken before reading: a write during the read then shows as a change at the next refresh.
            self._look = _look_of(os.fstat(file.fileno()))
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise BrokenLineError(f"it must not be longer than {MAX_BYTES} bytes")
        return self._read(raw)

    def _tell(self, place: str, rule: str) -> None:
        self.failures += 1
        self.is_failing = True
        hint = "the previous content stays in force until the file is fixed"
        log_event(logging.WARNING, "apf.identity-file-rejected", setting=self._name, place=place, error=rule, hint=hint)


def _look_of(found: os.stat_result) -> _Look:
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)
