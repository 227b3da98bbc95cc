"""The replacement for an app that can't be protected."""

from typing import Any

import anyio
import pytest

from apf_middleware.asgi.failure import SetupFailureApp
from apf_middleware.exceptions import InvalidValueError

ERROR = InvalidValueError("seats", 0, "it must be at least 1")


async def app(_scope: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401
    await send({"type": "app"})


def messages_of(failure: SetupFailureApp, kind: str) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": f"{kind}.startup"}

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(message)

    anyio.run(failure, {"type": kind, "method": "GET", "path": "/", "headers": []}, receive, send)
    return sent


def test_requests_are_answered_503_and_the_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    failure = SetupFailureApp(app, ERROR)

    start, body = messages_of(failure, "http")
    messages_of(failure, "http")

    assert start["status"] == 503
    assert b"seats" not in body["body"]
    assert [one.__dict__["event"] for one in caplog.records] == ["apf.not-set-up"]


def test_other_scopes_reach_the_app() -> None:
    assert messages_of(SetupFailureApp(app, ERROR), "other") == [{"type": "app"}]


def test_the_startup_fails_with_the_error() -> None:
    with pytest.raises(InvalidValueError, match="seats"):
        messages_of(SetupFailureApp(app, ERROR), "lifespan")
