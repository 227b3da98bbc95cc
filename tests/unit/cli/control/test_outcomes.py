"""The exit status of commands that ask several workers."""

from collections.abc import Sequence
from typing import Any

import pytest
import typer

from apf_middleware.cli.control.outcomes import Exit, end, require_success
from apf_middleware.cli.control.workers import Reply
from tests.support.worker_replies import refuses, says, silent


@pytest.mark.parametrize(
    ("replies", "status"),
    [
        ([silent("1")], Exit.UNREACHED),
        ([refuses("1", 403, "Not authorized."), silent("2")], Exit.UNREACHED),
        ([refuses("1", 404, "There is no such queue.")], Exit.REFUSED),
        ([refuses("1", 409, "It isn't empty."), silent("2")], Exit.REFUSED),
    ],
)
def test_a_command_that_no_worker_obeyed_fails(replies: Sequence[Reply[Any]], status: Exit) -> None:
    with pytest.raises(typer.Exit) as ended:
        require_success(replies)

    assert ended.value.exit_code == status


def test_a_server_that_has_ended_meanwhile_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        require_success([])

    assert ended.value.exit_code == Exit.UNREACHED
    assert capsys.readouterr().err == "apf: no worker has a socket in the directory any more\n"


def test_a_command_that_some_workers_obeyed_is_a_partial_failure(capsys: pytest.CaptureFixture[str]) -> None:
    replies = [says("1"), silent("2", "no answer")]
    require_success(replies)

    with pytest.raises(typer.Exit) as ended:
        end(replies)

    assert ended.value.exit_code == Exit.PARTIAL
    assert "worker 2: no answer" in capsys.readouterr().err


def test_what_a_worker_says_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        require_success([refuses("1", 409, "It is \x1b]0;mine\x07\nforever.")])

    assert capsys.readouterr().err == "apf: It is \\x1b]0;mine\\x07\nforever.\n"
