"""Options that commands share."""

import pytest

from tests.support.command_line import invoke


@pytest.mark.parametrize("duration", ["0", "0s", "-1s", "soon", "1d", "s", "1e9"])
def test_a_duration_is_a_number_with_a_unit(asked: list[tuple[object, ...]], duration: str) -> None:
    result = invoke("gate", "close", "db", "--for", duration, "--server", "http://127.0.0.1:1")

    assert (result.exit_code, asked) == (2, [])
