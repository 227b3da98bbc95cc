"""Options that commands share."""

import pytest

from tests.support.command_line import invoke


@pytest.mark.parametrize("duration", ["0", "0s", "-1s", "soon", "1d", "s", "1e9"])
def test_a_duration_is_a_number_with_a_unit(asked: list[tuple[object, ...]], duration: str) -> None:
    result = invoke("gate", "close", "db", "--for", duration, "--server", "http://127.0.0.1:1")

    assert (result.exit_code, asked) == (2, [])


@pytest.mark.parametrize("seconds", ["inf", "nan", "0", "-1", "1e30"])
@pytest.mark.parametrize(
    "command",
    [
        ("queue", "list", "--server", "http://127.0.0.1:1", "--timeout"),
        ("queue", "top", "--server", "http://127.0.0.1:1", "--interval"),
        ("dump", "http://127.0.0.1:1", "--timeout"),
    ],
    ids=" ".join,
)
def test_no_command_waits_for_ever(command: tuple[str, ...], seconds: str) -> None:
    result = invoke(*command, seconds)

    assert result.exit_code == 2
    assert "it must be from 0.1 to 86400 seconds" in result.stderr
