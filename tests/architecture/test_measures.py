"""Bounds on cycles, depth of inheritance and duplicated names, which only become smaller. ``-s`` prints the figures."""

from pathlib import Path

import pytest

import apf_middleware
from tests.architecture.measures import Package, cycles

DEEP_CLASSES = 64
"""Classes deeper than an interface and its implementation that are still to be composed of parts."""

TYPING_CYCLES = [23]
"""Sizes of the groups of modules that still import each other for type checking."""


@pytest.fixture(scope="module")
def package() -> Package:
    return Package(Path(apf_middleware.__file__).parent)


def test_no_module_imports_itself_by_way_of_others(package: Package) -> None:
    print("\n", package.figures())

    assert cycles(package.graph(typing=False)) == []


def test_cycles_for_type_checking_become_fewer(package: Package) -> None:
    found = cycles(package.graph(typing=True))

    assert len(found) <= len(TYPING_CYCLES)
    assert sum(map(len, found)) <= sum(TYPING_CYCLES), found


def test_inheritance_is_for_interfaces(package: Package) -> None:
    assert len(package.deep) <= DEEP_CLASSES


def test_classes_have_names_of_their_own(package: Package) -> None:
    assert package.duplicates == []


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
