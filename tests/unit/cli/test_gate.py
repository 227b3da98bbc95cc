"""The commands for gates, and the requests that they send."""

import pytest

from tests.support.command_line import invoke


@pytest.mark.parametrize(
    ("arguments", "question", "status"),
    [
        (("list",), ("GET", "/gates"), 0),
        (("open", "db"), ("POST", "/gates/db/open", {}), 0),
        (("close", "db"), ("POST", "/gates/db/close", {}), 0),
        (("close", "db", "--for", "10s"), ("POST", "/gates/db/close", {"for": 10.0}), 0),
        (("close", "db", "--for", "500ms"), ("POST", "/gates/db/close", {"for": 0.5}), 0),
        (("close", "db", "--for", "1.5m"), ("POST", "/gates/db/close", {"for": 90.0}), 0),
        (("close", "db", "--for", "7"), ("POST", "/gates/db/close", {"for": 7.0}), 0),
        (("kick", "db"), ("POST", "/gates/db/kick", {}), 0),
        (("kick", "db", "--request", "8"), ("POST", "/gates/db/kick", {"request": 8}), 0),
        (("open", "a/b"), ("POST", "/gates/a%2Fb/open", {}), 0),
        (("open", "nobody"), ("POST", "/gates/nobody/open", {}), 1),
        (("open", "hangs"), ("POST", "/gates/hangs/open", {}), 4),
    ],
)
def test_a_command_sends_one_request_to_each_worker(
    asked: list[tuple[object, ...]], arguments: tuple[str, ...], question: tuple[object, ...], status: int
) -> None:
    result = invoke("gate", *arguments, "--server", "http://127.0.0.1:1")

    assert (result.exit_code, asked) == (status, [question])
    if status == 0:
        assert "kicked 8" in result.stdout if "kick" in arguments else "shard-3" in result.stdout
