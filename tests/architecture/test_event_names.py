"""Events of the log have one name each, in the code and in the documents."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVENTS = sorted(
    {
        name
        for path in (ROOT / "apf_middleware").rglob("*.py")
        for name in re.findall(r'"(apf\.[a-z]+(?:-[a-z]+)+)"', path.read_text())
    }
)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "grafana").rglob("*.md"))]


def test_there_are_events() -> None:
    assert "apf.gate-failed" in EVENTS


@pytest.mark.parametrize("event", EVENTS)
def test_the_documents_call_it_by_the_name_that_the_log_has(event: str) -> None:
    other = event.replace("-", "_")
    wrong = [str(path.relative_to(ROOT)) for path in DOCUMENTS if other in path.read_text()]

    assert not wrong, f"{other} should be {event}"


@pytest.mark.parametrize("event", EVENTS)
def test_the_table_of_events_has_it(event: str) -> None:
    table = (ROOT / "docs" / "middleware.md").read_text()

    assert event in table or f"`-{event.rpartition('-')[2]}`" in table
