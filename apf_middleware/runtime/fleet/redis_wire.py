"""Commands and replies of Redis as bytes."""

from collections.abc import Iterator
from typing import Any, Final

from redis.exceptions import InvalidResponse, ResponseError

__all__ = ["ReplyReader", "packed"]

_END: Final = b"\r\n"


def packed(*parts: str | float | bytes) -> bytes:
    """Return a command as Redis reads it."""
    encoded = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join([b"*%d\r\n" % len(encoded), *[b"$%d\r\n%b\r\n" % (len(one), one) for one in encoded]])


class ReplyReader:
    """Read replies from the parts in which they arrive; an error is a reply like others."""

    __slots__ = ("_open", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._open: list[tuple[int, list[Any]]] = []  # the arrays that aren't complete, and their lengths

    def feed(self, data: bytes) -> Iterator[Any]:
        """Iterate over the replies that are complete with this ``data``; raise InvalidResponse if it has none."""
        data, at = self._rest + data, 0
        while (end := data.find(_END, at)) >= 0:
            kind, text, after = data[at : at + 1], data[at + 1 : end], end + len(_END)
            value: Any = None
            if kind in {b"$", b"*"}:
                length = _number(text)
                if kind == b"*" and length > 0:
                    self._open.append((length, []))
                    at = after
                    continue
                if kind == b"*":
                    value = None if length < 0 else []
                elif length >= 0:
                    if len(data) < after + length + len(_END):
                        break
                    value, after = data[after : after + length], after + length + len(_END)
            elif kind != b"_":
                value = _simple(kind, text)
            at = after
            while self._open:
                length, items = self._open[-1]
                items.append(value)
                if len(items) < length:
                    break
                value = items
                self._open.pop()
            else:
                yield value
        self._rest = data[at:]


def _simple(kind: bytes, text: bytes) -> bytes | int | ResponseError:
    """Return a reply of one line."""
    if kind == b":":
        return _number(text)
    if kind == b"-":
        return ResponseError(text.decode(errors="replace"))
    if kind == b"+":
        return text
    raise InvalidResponse(f"unexpected reply {kind + text!r}")


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidResponse(f"unexpected number {text!r}") from error
