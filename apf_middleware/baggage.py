"""Members of W3C baggage, the header whose ``key=value`` pairs OpenTelemetry passes on from service to service."""

from typing import Final
from urllib.parse import unquote

__all__ = ["add_member", "find_members"]

_MOST_BYTES: Final = 8192


def find_members(value: bytes, key: str) -> list[bytes]:
    """Return the values of all members ``key``, without their properties.

    Raises:
        ValueError: the header is longer than the specification allows.
    """
    if len(value) > _MOST_BYTES:
        raise ValueError("too long")
    wanted, found = key.encode(), []
    for member in value.split(b","):
        name, _, text = member.partition(b"=")
        if name.strip() == wanted:
            found.append(unquote(text.partition(b";")[0].decode("latin-1")).encode("latin-1", "replace").strip())
    return found


def add_member(before: str, key: str, value: str) -> str:
    """Return the header ``before`` with a member instead of the one of this key that it had.

    The member is left out if the header would become longer than the specification allows: readers ignore such a
    header, together with all its other members.
    """
    others = [one.strip() for one in before.split(",") if one.partition("=")[0].strip() not in {"", key}]
    added = ",".join((*others, f"{key}={value}"))
    return added if len(added.encode("utf-8", "replace")) <= _MOST_BYTES else ",".join(others)
