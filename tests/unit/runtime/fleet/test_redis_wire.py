"""Commands and replies of Redis, in parts of any size."""

import pytest
from redis.exceptions import InvalidResponse, ResponseError

from apf_middleware.runtime.fleet.redis_wire import ReplyReader, packed

REPLIES = (
    b"+OK\r\n:-7\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n_\r\n"
    b"*3\r\n:1\r\n*2\r\n$1\r\nx\r\n*1\r\n:2\r\n$-1\r\n"
)
VALUES = [b"OK", -7, b"a\r\nbc", b"", None, None, [], None, [1, [b"x", [2]], None]]


def test_a_command_is_a_list_of_byte_strings() -> None:
    assert packed("BLPOP", b"\x00\r\n", 7, 0.5) == b"*4\r\n$5\r\nBLPOP\r\n$3\r\n\x00\r\n\r\n$1\r\n7\r\n$3\r\n0.5\r\n"
    assert packed("PING", "ä") == b"*2\r\n$4\r\nPING\r\n$2\r\n\xc3\xa4\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_replies_come_back_whole(size: int) -> None:
    reader = ReplyReader()
    parts = [REPLIES[at : at + size] for at in range(0, len(REPLIES), size)]
    assert [reply for part in parts for reply in reader.feed(part)] == VALUES


def test_an_error_is_a_reply_like_others() -> None:
    first, second, (inner, last) = ReplyReader().feed(b"-ERR no\r\n:1\r\n*2\r\n-ERR inner\r\n:2\r\n")
    assert (str(first), second, str(inner), last) == ("ERR no", 1, "ERR inner", 2)
    assert isinstance(first, ResponseError)
    assert isinstance(inner, ResponseError)


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n", b":x\r\n", b"$x\r\n", b"*1.5\r\n", b"\r\n"])
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidResponse, match="unexpected"):
        [*ReplyReader().feed(data)]
