"""Options that several commands share: declared once, and given to a command as one value; and durations."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

import typer

__all__ = ["parse_duration", "require_seconds", "with_options"]

_Command = Callable[..., None]
_LEAST_S: Final = 0.1
_MOST_S: Final = 86_400
_DURATION: Final = re.compile(r"(?P<number>\d{1,9}(\.\d{1,9})?)(?P<unit>ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, None: 1}


def with_options(
    parameter: str, options: Mapping[str, tuple[Any, object]], collect: Callable[..., object]
) -> Callable[[_Command], _Command]:
    """Replace ``parameter`` of a command by ``options``, each of which is a type and a default.

    ``collect`` makes the command's argument from the values of the options.
    """

    def decorate(command: _Command) -> _Command:
        def run(**given: Any) -> None:  # noqa: ANN401 - typer parses many types
            values = {name: given.pop(name) for name in options}
            command(**{parameter: collect(**values)}, **given)

        hints = get_type_hints(command, include_extras=True)
        own = [
            one.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            for name, one in inspect.signature(command).parameters.items()
            if name != parameter
        ]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]
        run.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in (*own, *more)}
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        return run

    return decorate


def parse_duration(text: str, option: str) -> float:
    """Return the seconds of ``10s``, ``500ms``, ``1.5m`` or a plain number; end the command at anything else."""
    found = _DURATION.fullmatch(text)
    seconds = float(found["number"]) * _SECONDS[found["unit"]] if found else 0.0
    if seconds <= 0:
        rule = "must be a duration of more than 0, like 10s or 500ms"
        raise typer.BadParameter(f"{text!r} {rule}", param_hint=option)
    return seconds


def require_seconds(seconds: float) -> float:
    """Return a time that is neither too short nor endless, which NaN is too; the callback of options."""
    if not _LEAST_S <= seconds <= _MOST_S:
        raise typer.BadParameter(f"it must be from {_LEAST_S:g} to {_MOST_S} seconds")
    return seconds
