"""Whatever the arguments are, a command ends with a message and a status, never with a traceback."""

from pathlib import Path

import pytest

from apf_middleware.cli import main
from tests.support.command_line import invoke

LONG = "x" * 5_000
ODD = [
    "",
    "-",
    ".",
    "/dev/null",
    LONG,
    f"{LONG}/*",
    "http://[::1",
    "http://a:b:c",
    "\x00",
    "[",
    "💥",
    "-1",
    "NaN",
]
CLOSED = "http://127.0.0.1:1"
COMMANDS = [
    ("check", "{}"),
    ("check", "--output", "{}", "{}"),
    ("convert", "{}"),
    ("convert", "--to", "{}", "{}"),
    ("explain", "{}", "GET", "/"),
    ("explain", "config.yaml", "{}", "/"),
    ("explain", "config.yaml", "GET", "{}"),
    ("explain", "--user", "{}", "config.yaml", "GET", "/"),
    ("explain", "--group", "{}", "config.yaml", "GET", "/"),
    ("explain", "--header", "{}", "config.yaml", "GET", "/"),
    ("explain", "--header", "a:{}", "config.yaml", "GET", "/"),
    ("explain", "--client-ip", "{}", "config.yaml", "GET", "/"),
    ("simulate", "{}"),
    ("simulate", "--trace", "{}"),
    ("simulate", "--trace", "/dev/null", "--compare", "{}", "own"),
    ("simulate", "--trace", "/dev/null", "--plot", "{}"),
    ("recommend", "{}", "--objective", "p99=1s"),
    ("recommend", "/dev/null", "--objective", "{}"),
    ("recommend", "/dev/null", "--objective", "p99=1s", "--config", "{}"),
    ("recommend", "/dev/null", "--objective", "p99=1s", "--write", "{}"),
    ("replay", "{}"),
    ("replay", "/dev/null", "--write", "{}"),
    ("collisions", "--queues", "{}"),
    ("dump", "{}"),
    ("dump", CLOSED, "{}"),
    ("dump", CLOSED, "--token", "{}"),
    ("dump", CLOSED, "--header", "{}"),
    ("queue", "list", "--runtime-dir", "{}"),
    ("queue", "list", "--server", "{}"),
    ("queue", "list", "--server", CLOSED, "--token-file", "{}"),
    ("queue", "get", "--server", CLOSED, "{}"),
    ("queue", "create", "--server", CLOSED, "{}"),
    ("queue", "diff", "--server", CLOSED, "{}"),
    ("gate", "open", "--server", CLOSED, "{}"),
    ("{}",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_odd_arguments_never_end_in_a_traceback(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("apiVersion: apf/v1\nkind: Server\nspec: {}\n")

    for odd in ODD:
        result = invoke(*(word.replace("{}", odd) for word in command))

        is_orderly = result.exception is None or isinstance(result.exception, SystemExit)
        assert is_orderly, f"{ascii(odd)[:40]}: {result.exception!r}"


def test_an_argument_that_is_not_utf8_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["apf", "check", "a\udcff"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert capsys.readouterr().err == "apf: argument 2 is a\\udcff, but it must be UTF-8\n"


def test_a_file_whose_name_is_not_utf8_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\udcff.yaml"
    path.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 0}\n")
    monkeypatch.setattr("sys.argv", ["apf", "check", str(path)])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 1
    assert "spec.seats is 0" in capsys.readouterr().out


def test_help_shows_whole_sentences() -> None:
    for command in ((), ("queue",), ("gate",)):
        shown = invoke(*command, "--help").output
        assert "..." not in shown.partition("Commands:")[2]
        assert "Check configuration files" in shown or command


def test_an_error_names_the_option_or_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    by_option = invoke("queue", "list", "--runtime-dir", "/nonexistent")
    monkeypatch.setenv("APF_RUNTIME_DIR", "/nonexistent")
    by_variable = invoke("queue", "list")

    assert by_option.output.startswith("apf: --runtime-dir is '/nonexistent', but it must be a directory")
    assert by_variable.output.startswith("apf: APF_RUNTIME_DIR is '/nonexistent', but it must be a directory")
