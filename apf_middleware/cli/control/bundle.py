"""Options that several commands have in common, told once, and given to each as one value."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

__all__ = ["bundled"]

_Command = Callable[..., None]


def bundled(
    parameter: str, options: Mapping[str, tuple[Any, object]], collect: Callable[..., object]
) -> Callable[[_Command], _Command]:
    """Make a command that takes ``parameter`` one with ``options`` in its place: each is a type and a default.

    ``collect`` makes of their values what the command is given.
    """

    def bundle(command: _Command) -> _Command:
        def run(**given: Any) -> None:  # noqa: ANN401 - whatever typer has understood
            told = {name: given.pop(name) for name in options}
            command(**{parameter: collect(**told)}, **given)

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

    return bundle
