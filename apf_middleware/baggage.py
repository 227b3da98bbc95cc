"""Members of W3C baggage, the header whose ``key=value`` pairs OpenTelemetry passes on from service to service."""

from typing import Final
from urllib.parse import unquote

__all__ = ["add_member", "find_members"]

_MOST_BYTES: Final = 8192
_MOST_MEMBERS: Final = 180  # as in the specification
_MOST_VALUES: Final = 16
_LONGEST_VALUE: Final = 128  # with its characters encoded; all values that are read are shorter


def find_members(value: bytes, key: str) -> list[bytes]:
    """Return the values of the last 16 members ``key`` among the last 180, without their properties.

    Proxies add theirs at the end. To read thousands of members that a client repeats would take milliseconds.

    Raises:
        ValueError: the header is longer than the specification allows.
    """
    if len(value) > _MOST_BYTES:
        raise ValueError("too long")
    wanted, found = key.encode(), []
    for member in value.rsplit(b",", _MOST_MEMBERS)[-_MOST_MEMBERS:]:
        name, _, text = member.partition(b"=")
        if name.strip() == wanted:
            found.append(text.partition(b";")[0].strip()[:_LONGEST_VALUE])
    return [unquote(one.decode("latin-1")).encode("latin-1", "replace").strip() for one in found[-_MOST_VALUES:]]


def add_member(before: str, key: str, value: str) -> str:
    """Return the header ``before`` with a member instead of the one of this key that it had.

    The member is left out if the header would become longer than the specification allows: readers ignore such a
    header, together with all its other members.
    """
    others = [one.strip() for one in before.split(",") if one.partition("=")[0].strip() not in {"", key}]
    added = ",".join((*others, f"{key}={value}"))
    return added if len(added.encode("utf-8", "replace")) <= _MOST_BYTES else ",".join(others)
