"""Answers that don't depend on a level, and how any answer is sent."""

import asyncio
import json
from typing import Any

import pytest
from starlette.datastructures import MutableHeaders
from starlette.types import Message

from apf_middleware.asgi.response_headers import ResponseHeaders
from apf_middleware.asgi.responses import (
    Answer,
    answer_gone,
    answer_unauthenticated,
    answer_unknown_queue,
    send_answer,
)
from apf_middleware.config.responses import ResponseSettings

ANSWER = Answer(429, [(b"retry-after", b"3"), (b"connection", b"close")], b"busy")


def sent(answer: Answer | None, **scope: Any) -> list[Message]:  # noqa: ANN401 - whatever is in a scope
    """Send an answer, or the end of an exchange, as an outer middleware that changes all messages passes it on."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append({**message, "headers": [*message["headers"]]} if "headers" in message else dict(message))
        if "headers" in message:
            MutableHeaders(raw=message["headers"])["retry-after"] = "changed"
            message["headers"].append((b"vary", b"origin"))
        message["body"] = b"changed"

    full = {"type": "http", "method": "GET", "http_version": "1.1", **scope}
    asyncio.run(answer_gone(full, send) if answer is None else send_answer(answer, full, send))
    return messages


def test_bad_credentials_are_answered_with_the_challenge() -> None:
    found = answer_unauthenticated('Bearer realm="apf", error="invalid_token"', "expired")

    assert found.status == 401
    assert dict(found.headers)[b"www-authenticate"] == b'Bearer realm="apf", error="invalid_token"'
    assert json.loads(found.body)["reason"] == "expired"
    assert json.loads(found.body)["detail"] == "The credentials aren't accepted: the token has expired."
    assert b"aren't accepted: banned." in answer_unauthenticated("X", "banned").body


@pytest.mark.parametrize(("status", "times"), [(404, 0), (503, 1)])
def test_only_a_temporary_refusal_of_a_queue_says_when_to_retry(status: int, times: int) -> None:
    found = answer_unknown_queue(status, "unknown", ResponseHeaders(ResponseSettings()))

    assert [name for name, _ in found.headers].count(b"retry-after") == times
    assert json.loads(found.body)["status"] == status


def test_an_answer_is_two_messages() -> None:
    start, body = sent(ANSWER)

    assert start == {"type": "http.response.start", "status": 429, "headers": ANSWER.headers}
    assert body == {"type": "http.response.body", "body": b"busy", "more_body": False}


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"http_version": "2"},
        {"method": "HEAD"},
        {"type": "websocket", "extensions": {"websocket.http.response": {}}},
    ],
)
def test_an_answer_stays_the_same_when_outer_middleware_changes_its_messages(scope: dict[str, Any]) -> None:
    first = sent(ANSWER, **scope)

    assert sent(ANSWER, **scope) == first
    assert ANSWER.headers == [(b"retry-after", b"3"), (b"connection", b"close")]


def test_the_end_of_an_exchange_stays_the_same_when_outer_middleware_changes_its_messages() -> None:
    assert sent(None) == sent(None)
    assert sent(None)[0]["headers"] == [(b"content-length", b"0")]


@pytest.mark.parametrize("version", ["2", "3"])
def test_later_versions_of_http_get_no_connection_header(version: str) -> None:
    assert sent(ANSWER, http_version=version)[0]["headers"] == [(b"retry-after", b"3")]


def test_an_answer_to_a_head_request_has_no_body() -> None:
    assert sent(ANSWER, method="HEAD")[1]["body"] == b""


def test_a_websocket_without_denial_responses_is_closed() -> None:
    assert sent(ANSWER, type="websocket")[0]["code"] == 1013
    assert sent(Answer(401, [], b""), type="websocket")[0]["code"] == 1008
