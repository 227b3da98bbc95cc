"""What the README and the documentation show is true: code runs, YAML loads, links lead somewhere."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from fastapi import Depends, FastAPI
from starlette.testclient import TestClient

from apf_middleware import Admission, APFMiddleware, get_admission
from apf_middleware.config import load_text, read_source
from apf_middleware.config.problems import Severity
from apf_middleware.config.scenario import read_scenario_text

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_python_in_the_readme_runs() -> None:
    """As one program, and its app answers."""
    names: dict[str, Any] = {}
    for number, program in enumerate(blocks(ROOT / "README.md", "python")):
        exec(compile(program, f"README.md, block {number}", "exec"), names)  # noqa: S102 - our own page

    with TestClient(names["app"]) as client:
        answer = client.get("/report")

    assert answer.json() == {"level": "anonymous", "flow": "testclient", "waited": 0.0}
    assert "x-apf-priority-level" not in answer.headers  # it was admitted at once


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_in_the_documentation_runs(page: Path) -> None:
    for number, program in enumerate(blocks(page, "python")):
        exec(compile(program, f"{page.name}, block {number}", "exec"), {"app": FastAPI()})  # noqa: S102 - as above


def test_the_yaml_in_the_readme_is_fine() -> None:
    [text] = blocks(ROOT / "README.md", "yaml")

    reading = read_source(text, "README.md")

    assert [str(problem) for problem in reading.problems] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_data_in_the_documentation_is_fine(page: Path) -> None:
    """YAML that is a configuration has no errors; what it leaves out for brevity may be warned of."""
    for number, text in enumerate(blocks(page, "yaml")):
        documents = [document for document in yaml.safe_load_all(text) if document]
        assert documents
        if "kind" in documents[0]:
            read = read_scenario_text if documents[0]["kind"] == "Scenario" else read_source
            problems = read(text, f"{page.name}, block {number}").problems
            assert [str(problem) for problem in problems if problem.severity is Severity.ERROR] == []
    for text in blocks(page, "json"):
        json.loads(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", page.read_text()) if not link.startswith("http")]

    assert [link for link in links if not (page.parent / link.partition("#")[0]).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_shown_exist(page: Path) -> None:
    shown = set(re.findall(r"\$ make (\w+)", page.read_text()))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert shown <= targets
    for module in re.findall(r"python -m (benchmarks\.\w+|tests\.[\w.]+)", page.read_text()):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def test_the_report_of_the_page_for_rate_limiters_takes_two_seats() -> None:
    """The cap of its level must not make its estimate void."""
    [text] = blocks(ROOT / "docs" / "from-rate-limiters.md", "yaml")
    app = FastAPI()
    app.add_middleware(APFMiddleware, config=load_text(text))

    @app.get("/report")
    async def report(admission: Annotated[Admission, Depends(get_admission)]) -> int:
        return admission.seats

    with TestClient(app) as client:
        assert client.get("/report").json() == 2


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "config").glob("*.yaml")), ids=lambda path: path.name)
def test_the_example_configurations_are_fine(path: Path) -> None:
    assert [str(problem) for problem in read_source(path.read_text(), path.name).problems] == []
