"""Responses that are recognized as streams."""

import pytest

from apf_middleware.asgi.stream_policy import is_event_stream


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
