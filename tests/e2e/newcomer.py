"""A newcomer, who types what a page says: writes the files, enters the commands, and compares what comes out.

Lines of output that a page shows must come in that order; a line `…` stands for any number of others. Numbers that
depend on time are not compared.
"""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Command", "commands_of", "files_of", "missing", "type_in"]

_FILE = re.compile(r"`(\w+\.\w+)`[^`]*?\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SESSION = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TIME = re.compile(r"\d+\.\d{3,}|(?<=retry-after: )\d+|(?<=\"retry_after\": )\d+")
_MARK = "@@@ next command"


@dataclass
class Command:
    """One command, and what the page shows of its output."""

    text: str
    shown: list[str] = field(default_factory=list)


def files_of(page: str) -> dict[str, str]:
    """Names and texts of the files that the page tells to write."""
    return dict(_FILE.findall(page))


def commands_of(page: str) -> list[Command]:
    """All commands of the page, in order."""
    commands: list[Command] = []
    for session in _SESSION.findall(page):
        for line in session.splitlines():
            if line.startswith("$ "):
                commands.append(Command(line[2:]))
            else:
                commands[-1].shown.append(line)
    return commands


def type_in(commands: list[Command], folder: Path, environment: dict[str, str]) -> list[str]:
    """Return the output of each command, errors included, entered into one shell."""
    script = "\n".join(f"{command.text}\necho; echo '{_MARK}'" for command in commands)
    result = subprocess.run(
        ["bash"],  # noqa: S607 - the newcomer's own
        input=f"exec 2>&1\n{script}\n",
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return result.stdout.split(f"\n{_MARK}\n")[: len(commands)]


def missing(command: Command, printed: str) -> list[str]:
    """Return the lines that the page shows and that are missing, or out of order."""
    lines = iter([_TIME.sub("#", line).strip() for line in printed.splitlines()])
    shown = [_TIME.sub("#", line).strip() for line in command.shown if line.strip("… ")]
    return [line for line in shown if line not in lines]  # each search goes on where the last one ended
