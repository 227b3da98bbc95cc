"""Rules of the package's structure: imports in one direction, flat inheritance, one name for one class."""

from pathlib import Path
from typing import Final

import pytest

import apf_middleware
from tests.architecture.measures import Package, cycles

ROOT: Final = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def package() -> Package:
    return Package(Path(apf_middleware.__file__).parent)


@pytest.mark.parametrize("typing", [False, True], ids=["at run time", "for type checking"])
def test_modules_import_each_other_in_one_direction(package: Package, typing: bool) -> None:  # noqa: FBT001 - a case
    print("\n", package.figures())

    assert cycles(package.graph(typing=typing)) == []


def test_inheritance_is_for_interfaces(package: Package) -> None:
    """A class has one interface, or none, above it."""
    assert package.deep == []


def test_classes_have_names_of_their_own(package: Package) -> None:
    assert package.duplicates == []


def test_the_design_names_every_package(package: Package) -> None:
    layout = (ROOT / "docs" / "design.md").read_text().partition("\n## Layout\n")[2].partition("\n## ")[0]
    table = "\n".join(line for line in layout.splitlines() if line.startswith("|"))
    below = {name.split(".")[1] for name in package.modules if "." in name and "._" not in name}

    assert sorted(name for name in below if f"`{name}`" not in table) == []


def write(folder: Path, **modules: str) -> Package:
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return Package(folder)


def test_the_measures_find_what_they_are_for(tmp_path: Path) -> None:
    package = write(
        tmp_path / "p",
        a="from p.b import B\n\nclass A(B): ...\nclass Twin: ...\n",
        b="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A\nclass C: ...\nclass B(C): ...\n",
        c="import p.a  # comment\nclass Twin: ...\n",
        d="def f():\n    from p import e\n",
        e="from p.d import f\n",
    )

    assert cycles(package.graph(typing=False)) == [["p.d", "p.e"]]
    assert cycles(package.graph(typing=True)) == [["p.a", "p.b"], ["p.d", "p.e"]]
    assert package.deep == ["A"]
    assert package.duplicates == ["Twin"]
    assert package.figures()["lines"] == 14
    assert package.figures()["comments in 100 lines"] == 7.1
