"""Events of the log have one name each, in the code and in the documents."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {path: path.read_text() for path in (ROOT / "apf_middleware").rglob("*.py")}
_NAME = r"[a-z]+(?:-[a-z]+)*"
_WRITTEN = (
    (rf'log_event\(\s*[\w.]+,\s*"(apf\.{_NAME})"', ""),
    (rf'"(apf\.{_NAME}-{_NAME})"', ""),  # also where a variable holds it
    (rf'log_change\([\w.]+, "({_NAME})"', "apf."),
    (rf'self\._log\("({_NAME})"', "apf.queue-"),
)
EVENTS = sorted(
    {start + name for text in SOURCES.values() for pattern, start in _WRITTEN for name in re.findall(pattern, text)}
)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "grafana").rglob("*.md"))]


def in_the_table() -> list[str]:
    """Return the events of the table; ``-ended`` after ``apf.shadow-begun`` is ``apf.shadow-ended``."""
    logs = (ROOT / "docs" / "middleware.md").read_text().partition("\n## Logs\n")[2].partition("\n## ")[0]
    found: list[str] = []
    for cell in re.findall(r"^\| (`[^|]*) \|", logs, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", cell):
            found.append(name if name.startswith("apf.") else found[-1].partition("-")[0] + name)
    return found


def test_there_are_events() -> None:
    expected = {"apf.gate-failed", "apf.switched", "apf.mode-switched", "apf.queue-created", "apf.started"}
    assert expected <= set(EVENTS)


@pytest.mark.parametrize("event", EVENTS)
def test_the_documents_call_it_by_the_name_that_the_log_has(event: str) -> None:
    other = event.replace("-", "_")
    wrong = [str(path.relative_to(ROOT)) for path in DOCUMENTS if other != event and other in path.read_text()]

    assert not wrong, f"{other} should be {event}"


def test_the_table_has_each_event_once_and_no_other() -> None:
    assert sorted(in_the_table()) == EVENTS


def test_no_record_goes_past_the_function_that_gives_it_its_event_and_facts() -> None:
    loggers = {path.relative_to(ROOT).as_posix() for path, text in SOURCES.items() if "getLogger(" in text}

    # Adapters may not import the runtime; the one that logs gives its record both.
    assert loggers == {"apf_middleware/runtime/log.py", "apf_middleware/adapters/redis_releases.py"}
