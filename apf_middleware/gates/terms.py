"""What all gates have in common, as an app writes it: in seconds, and with what isn't given left as it is."""

from dataclasses import replace
from typing import Any, Final, TypedDict

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates.gate import OnError, ReleaseAt, Terms

__all__ = ["TermsGiven", "terms_of"]

_SECOND: Final = 10**9


class TermsGiven(TypedDict, total=False):
    """See `Terms`; ``flush`` and ``poll`` are in seconds."""

    status: int
    on_error: OnError
    max_parked: int
    release: ReleaseAt
    flush: float
    poll: float
    events: tuple[str, ...]
    most_bypasses: int


def terms_of(given: TermsGiven, otherwise: Terms | None = None) -> Terms:
    """The terms that are ``given``, and for the rest those ``otherwise``."""
    changed: dict[str, Any] = dict(given)
    for name in ("flush", "poll"):
        if name in changed:
            seconds = changed.pop(name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e6:
                raise InvalidValueError(name, seconds, "it must be more than 0 seconds")
            changed[f"{name}_ns"] = int(seconds * _SECOND)
    return replace(otherwise or Terms(), **changed)
