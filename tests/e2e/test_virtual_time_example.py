"""The example in virtual time as a person starts it: into a pipe, in a terminal, and stopped with Ctrl-C."""

import signal
import unicodedata

from tests.e2e.terminal import CURSOR_OFF, CURSOR_ON, pipe, terminal

ELEPHANT = "examples.elephant"


def test_output_to_a_pipe_is_plain_text() -> None:
    done = pipe(ELEPHANT, "--fast")
    assert (done.returncode, done.stderr) == (0, "")
    assert {character for character in done.stdout if unicodedata.category(character) == "Cc"} == {"\n"}
    assert max(map(len, done.stdout.splitlines())) <= 80
    for words in ("without fairness", "with apf_middleware", "latency, p99", "goodput", "Jain's index", "apf --help"):
        assert words in done.stdout


def test_where_nothing_but_ascii_can_be_written_it_still_ends_well() -> None:
    done = pipe(ELEPHANT, encoding="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "latency, p99" in done.stdout
    assert "?" not in done.stdout


def test_in_a_terminal_it_draws_and_ends_by_itself() -> None:
    with terminal(ELEPHANT, "--fast") as shown:
        assert shown.read_to_end() == 0
    assert shown.text.count("64 queues") > 10
    assert "10.0 of 10 s" in shown.text
    assert "goodput" in shown.text
    assert shown.text.count(CURSOR_OFF) == shown.text.count(CURSOR_ON) == 1


def test_ctrl_c_ends_it_cleanly() -> None:
    with terminal(ELEPHANT) as shown:
        shown.read_until("of 10 s")
        shown.process.send_signal(signal.SIGINT)
        assert shown.read_to_end() == 130
    assert "Traceback" not in shown.text
    assert "goodput" not in shown.text
    assert shown.text.rindex(CURSOR_ON) > shown.text.rindex(CURSOR_OFF)
