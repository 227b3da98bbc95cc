"""Whatever the arguments are, a command ends with a message and a status, never with a traceback."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apf_middleware import __version__, is_compiled
from tests.support.command_line import Outcome, invoke

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
    ("replay", "/dev/null", "/dev/null", "--write", "{}"),
    ("collisions", "--queues", "{}"),
    ("dump", "{}"),
    ("dump", CLOSED, "{}"),
    ("dump", CLOSED, "--token-file", "{}"),
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


def test_help_shows_whole_sentences() -> None:
    for command in ((), ("queue",), ("gate",)):
        shown = invoke(*command, "--help").output
        assert "..." not in shown.partition("Commands:")[2]
        assert "Check configuration files" in shown or command


def test_an_error_names_the_option_or_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    by_option = invoke("queue", "list", "--runtime-dir", "/nonexistent")
    monkeypatch.setenv("APF_RUNTIME_DIR", "/nonexistent")
    by_variable = invoke("queue", "list")

    assert by_option.output.startswith("apf: --runtime-dir is '/nonexistent', but there is no such directory")
    assert by_variable.output.startswith("apf: APF_RUNTIME_DIR is '/nonexistent', but there is no such directory")


def test_an_empty_directory_is_not_the_current_one() -> None:
    result = invoke("queue", "list", "--runtime-dir", "")

    assert result.exit_code == 2
    assert "a path must not be empty; write . for the current folder" in result.output


Apf = Callable[..., Outcome]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("collisions", "--queues", "4", "--hand", "5"), "a hand can't exceed"),
        (("collisions", "--elephants", "0"), "it must be at least 1"),
        (("collisions", "-o", "xml"), "is not one of"),
        (("collisions", "--queues", "many"), "Invalid value for '--queues'"),
        (("replay",), "Missing argument"),
        (("fly",), "No such command"),
    ],
)
def test_wrong_arguments_are_reported_and_end_with_status_2(apf: Apf, arguments: tuple[str, ...], said: str) -> None:
    result = apf(*arguments)

    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_the_version_is_reported(apf: Apf) -> None:
    build = "compiled" if is_compiled else "pure Python"
    assert apf("--version").stdout == f"apf {__version__} ({build})\n"


def test_a_command_is_imported_when_it_is_used() -> None:
    program = (
        "import sys; from apf_middleware.cli.app import app; app(['--version'], standalone_mode=False); "
        "print(*(name for name in sys.modules if name.startswith('apf_middleware.')))"
    )

    imported = subprocess.check_output([sys.executable, "-c", program], text=True).splitlines()[-1].split()

    assert sorted(imported) == [
        "apf_middleware._version",
        "apf_middleware.cli",
        "apf_middleware.cli.app",
        "apf_middleware.counters",
        "apf_middleware.exceptions",
    ]


@pytest.mark.parametrize(("misspelt", "meant"), [("chek", "check"), ("queu", "queue")])
def test_a_command_that_is_not_imported_is_proposed(apf: Apf, misspelt: str, meant: str) -> None:
    assert f"Did you mean '{meant}'" in apf(misspelt).stderr


def test_help_lists_the_commands(apf: Apf) -> None:
    result = apf("--help")

    assert result.returncode == 0
    assert "replay" in result.stdout
    assert "collisions" in result.stdout
