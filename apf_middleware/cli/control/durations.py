"""Durations as operators write them."""

import re
from typing import Final

import typer

__all__ = ["seconds_of"]

_DURATION: Final = re.compile(r"(?P<number>\d{1,9}(\.\d{1,9})?)(?P<unit>ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, None: 1}


def seconds_of(text: str, option: str) -> float:
    """``10s``, ``500ms``, ``1.5m`` or plain seconds; it ends the command if it is nothing like that."""
    found = _DURATION.fullmatch(text)
    seconds = float(found["number"]) * _SECONDS[found["unit"]] if found else 0.0
    if seconds <= 0:
        rule = "is no duration above nothing: write it like 10s or 500ms"
        raise typer.BadParameter(f"{text!r} {rule}", param_hint=option)
    return seconds
