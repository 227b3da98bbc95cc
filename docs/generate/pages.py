"""MkDocs hooks: pages for what the documentation links to outside of its folder.

A page says `../examples/behind_proxy` or `../apf_middleware/config/defaults/web.yaml`, because that is where it leads
when somebody reads it in the repository. The site has a page for each of these, so that it is whole wherever it is put.
A folder's page shows its README and its files; a file's page shows the file.
"""

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

__all__ = ["links_out", "on_files", "on_page_markdown", "shown"]

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
CHANGELOG: Final = ROOT / "CHANGELOG.md"

_LINK: Final = re.compile(r"(?<=\]\()([^()#\s]+)(#[^()\s]*)?(?=\))")
_LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".json": "json", ".sh": "bash", ".conf": "nginx", ".csv": "text"}
_FENCE: Final = "````"


def links_out(text: str, folder: Path) -> Iterator[Path]:
    """Return the link to use where a text of this folder links out of the documentation's folder."""
    for link in _LINK.finditer(text):
        target = _outside(link[1], folder)
        if target is not None:
            yield target


def shown(target: Path) -> str:
    """Return the Markdown that shows a file or a folder."""
    if target.is_dir():
        readme = target / "README.md"
        opening = readme.read_text() if readme.exists() else f"# `{_name(target)}`\n"
        files = [file for file in sorted(target.iterdir()) if file.suffix in _LANGUAGES and file.name != "__init__.py"]
        return "\n".join([opening, *(f"## `{file.name}`\n\n{_fenced(file)}" for file in files)])
    return target.read_text() if target.suffix == ".md" else f"# `{_name(target)}`\n\n{_fenced(target)}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, and those that they in turn link to."""
    open_, seen = [CHANGELOG], set[Path]()
    for file in files.documentation_pages():
        open_.extend(links_out(file.content_string, (DOCS / file.src_uri).parent))
    while open_:
        target = open_.pop()
        if target in seen:
            continue
        seen.add(target)
        text = shown(target)
        inclusion = InclusionLevel.INCLUDED if target == CHANGELOG else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, _uri(target), content=text, inclusion=inclusion))
        open_.extend(links_out(text, _folder(target)))
    _ORIGINS.update({_uri(target): _folder(target) for target in seen})
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links lead to the pages."""
    here = page.file.src_uri
    folder = _ORIGINS.get(here, (DOCS / here).parent)

    def rewritten(link: re.Match[str]) -> str:
        target = _outside(link[1], folder) or (_inside(link[1], folder) if here in _ORIGINS else None)
        if target is None:
            return link[0]
        return posixpath.relpath(_uri(target), posixpath.dirname(here) or ".") + (link[2] or "")

    return _LINK.sub(rewritten, markdown)


_ORIGINS: Final[dict[str, Path]] = {}
"""Where the text of a page that was added stands in the repository."""


def _outside(link: str, folder: Path) -> Path | None:
    target = _resolved(link, folder)
    return None if target is None or target.is_relative_to(DOCS) else target


def _inside(link: str, folder: Path) -> Path | None:
    target = _resolved(link, folder)
    return target if target is not None and target.is_relative_to(DOCS) else None


def _resolved(link: str, folder: Path) -> Path | None:
    target = Path(os.path.normpath(folder / link))
    return target if target.is_relative_to(ROOT) and target.exists() else None


def _uri(target: Path) -> str:
    if target == CHANGELOG:
        return "changelog.md"
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS).as_posix()
    return f"source/{_name(target)}.md"


def _name(target: Path) -> str:
    return target.relative_to(ROOT).as_posix()


def _folder(target: Path) -> Path:
    return target if target.is_dir() else target.parent


def _fenced(file: Path) -> str:
    return f"{_FENCE}{_LANGUAGES.get(file.suffix, 'text')}\n{file.read_text().rstrip()}\n{_FENCE}\n"
