"""The documentation's site: it is built without a warning, its links lead somewhere, and it needs nobody else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from docs.generate import pages, reference

ROOT = Path(__file__).parents[2]


def build(site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site), *options]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=110)


class Page(HTMLParser):
    """What a page has: places to go to, and links."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors: set[str] = {""}
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                (self.links if tag == "a" else self.fetched).add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    folder = tmp_path_factory.mktemp("site")
    result = build(folder)
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    return {path: Page(path) for path in folder.rglob("*.html") if path.name != "404.html"}


def broken(site: dict[Path, Page]) -> Iterator[str]:
    for path, page in site.items():
        for link in page.links | page.fetched:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost = target.suffix == ".html" and unquote(parts.fragment) not in getattr(site.get(target), "anchors", ())
            if lost or not target.exists():
                yield f"{path.name}: {link}"


def test_every_link_and_anchor_leads_somewhere(site: dict[Path, Page]) -> None:
    assert sorted(broken(site)) == []


def test_a_broken_link_is_detected(site: dict[Path, Page], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text('<a href="nowhere.html">x</a> <a href="#nothing">y</a> <img src="none.svg"> <b id="here"></b>')

    assert sorted(broken({path: Page(path)})) == [
        "page.html: #nothing",
        "page.html: none.svg",
        "page.html: nowhere.html",
    ]


def test_every_page_of_the_folder_is_on_the_site(site: dict[Path, Page]) -> None:
    built = {path.stem for path in site}

    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= built
    assert len(built) > 20


def test_what_lies_outside_of_the_folder_has_a_page_when_it_is_linked_to(site: dict[Path, Page]) -> None:
    [example] = [page for path, page in site.items() if path.parts[-2:] == ("examples", "fastapi_tenants.html")]
    text = example.path.read_text()

    assert "app.py" in example.links or any(link.endswith("app.py.html") for link in example.links)
    assert "get_admission" in text  # the code itself is shown
    assert any(path.name == "web.yaml.html" for path in site)


def test_a_link_that_leads_outside_keeps_its_anchor() -> None:
    page: Any = SimpleNamespace(file=SimpleNamespace(src_uri="operations.md"))
    text = "[a](../grafana/README.md#rules) [b](metrics.md#seats) [c](../nowhere.py) [d](https://example.com/x)"

    rewritten = pages.on_page_markdown(text, page=page)

    assert rewritten == text.replace("../grafana/README.md", "source/grafana/README.md.md")
    assert list(pages.links_out(text, ROOT / "docs")) == [ROOT / "grafana" / "README.md"]


def test_nothing_is_fetched_from_elsewhere_when_a_page_is_looked_at(site: dict[Path, Page]) -> None:
    fetched = {link for page in site.values() for link in page.fetched}

    assert {link for link in fetched if urlsplit(link).scheme not in ("", "data") or link.startswith("//")} == set()


def test_a_page_that_is_in_no_menu_fails_the_build(tmp_path: Path) -> None:
    settings: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    (tmp_path / "docs").mkdir()
    for name in ("index", "forgotten"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"# {name}\n")
    del settings["hooks"]
    settings["docs_dir"], settings["nav"] = "docs", settings["nav"][:1]
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings))

    result = build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))

    assert settings["nav"] == [{"Overview": "index.md"}]
    assert result.returncode != 0
    assert 'not included in the "nav" configuration' in result.stderr
    assert "forgotten.md" in result.stderr


def test_make_builds_what_is_tested_here() -> None:
    """Not `--quiet`, which would let warnings pass."""
    recipe = (ROOT / "Makefile").read_text().partition("\ndocs:")[2].partition("\n\n")[0]

    assert "mkdocs build --strict\n" in recipe


def test_the_reference_of_all_keys_is_what_the_models_say() -> None:
    assert reference.FILE.read_text() == reference.written(), "run python -m docs.generate.reference"


def test_the_reference_lists_types_bounds_and_defaults() -> None:
    lines = reference.written().splitlines()

    def row(key: str) -> list[str]:
        [line] = [line for line in lines if line.startswith(f"| `{key}` |")]
        return [cell.strip() for cell in line.strip("|").split("|")]

    assert row("spec.seats")[1:3] == ["integer, 1 to 10,000,000 or [seats](#server-seats)", "`100`"]
    assert row("spec.waitLimit")[1:3] == ["duration", ""]
    assert row("spec.level")[1:3] == ["name", "*required*"]
    assert row("spec.response")[1:3] == ["`Queue`, `Reject`", "`Queue`"]
    assert row("spec.queuing")[1] == "[queuing](#prioritylevel-queuing)"
    assert row("requireExpiry")[1:3] == ["true or false", "`true`"]
