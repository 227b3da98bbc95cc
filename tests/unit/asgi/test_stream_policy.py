"""Responses that are recognized as streams."""

import pytest

from apf_middleware.accept import LONGEST
from apf_middleware.asgi.stream_policy import announces_stream, is_event_stream


@pytest.mark.parametrize(
    ("content_type", "is_stream"),
    [
        (b"text/event-stream", True),
        (b"Text/Event-Stream; charset=utf-8", True),
        (b"text/event-stream\t", True),
        (b"text/event-streams", False),
        (b"text/plain", False),
        (b"", False),
    ],
)
def test_an_event_stream_is_recognized_with_or_without_parameters(content_type: bytes, *, is_stream: bool) -> None:
    assert is_event_stream(content_type) is is_stream


@pytest.mark.parametrize(
    ("accepted", "is_known"),
    [
        ([], False),
        ([b"text/html"], False),
        ([b"text/html, Text/Event-Stream;q=0.1"], True),
        ([b"text/html", b"text/event-stream"], True),
        ([b"text/event-stream;q=0"], False),
        ([b"text/event-stream", *[b"," * 1000] * 9], True),
        ([*[b","] * LONGEST, b"text/event-stream"], False),  # all headers together are read up to a bound
    ],
)
def test_a_request_may_announce_a_stream_in_any_of_its_headers(accepted: list[bytes], *, is_known: bool) -> None:
    headers = [(b"host", b"x"), *((b"accept", value) for value in accepted)]

    assert announces_stream({"type": "http", "headers": headers}) is is_known
    assert announces_stream({"type": "websocket", "headers": headers})
