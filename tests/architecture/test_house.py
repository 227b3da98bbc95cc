"""The rules of the house that a program can check: sizes, names, exports, who imports whom."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import apf_middleware

ROOT = Path(apf_middleware.__file__).parents[1]
PACKAGE = sorted((ROOT / "apf_middleware").rglob("*.py"))
MODULE_CAP = 700
FUNCTION_CAP = 40

Function = ast.FunctionDef | ast.AsyncFunctionDef


def names() -> Iterator[str]:
    yield "apf_middleware"
    for module in pkgutil.walk_packages(apf_middleware.__path__, "apf_middleware."):
        if not module.name.endswith("__main__"):
            yield module.name


MODULES = sorted(names())


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines_of(function: Function) -> int:
    """From the signature to the end, the docstring not counted."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    docstring = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def test_there_is_something_to_check() -> None:
    assert len(PACKAGE) > 20
    assert len(MODULES) > 20


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_no_module_is_longer_than_the_cap(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MODULE_CAP


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_no_function_is_longer_than_40_lines(path: Path) -> None:
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function)]

    assert [(node.name, lines_of(node)) for node in functions if lines_of(node) > FUNCTION_CAP] == []


def test_the_measure_of_functions_bites() -> None:
    body = "\n".join("    x = 1" for _ in range(FUNCTION_CAP))
    [function] = ast.parse(f'def f():\n    """Text\n    of two lines."""\n{body}\n').body

    assert isinstance(function, Function)
    assert lines_of(function) == FUNCTION_CAP + 1


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_a_module_opens_with_what_belongs_there(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", PACKAGE, ids=relative)
def test_no_class_has_a_name_that_says_nothing(path: Path) -> None:
    classes = [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]

    assert [name for name in classes if re.search(r"(Manager|Helper|Utils?)$", name)] == []


def public_names(module: ModuleType) -> list[str]:
    """Return the public names that were defined in this module."""
    made = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]
    return sorted(made)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_exports_exactly_what_is_public(name: str) -> None:
    module = importlib.import_module(name)
    exported = module.__all__

    assert len(set(exported)) == len(exported)
    assert all(hasattr(module, one) for one in exported)
    assert set(public_names(module)) <= set(exported)


@pytest.mark.parametrize("name", MODULES)
def test_exports_are_sorted(name: str) -> None:
    """Constants, classes, functions, each by name, as ruff sorts them."""
    exported = importlib.import_module(name).__all__

    def order(one: str) -> tuple[int, str]:
        return (0 if one.isupper() else 1 if one[:1].isupper() else 2, one)

    assert list(exported) == sorted(exported, key=order)


def test_the_top_exports_few_names() -> None:
    assert len(apf_middleware.__all__) <= 20


def test_everybody_imports_inward_only() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout + result.stderr


def test_the_core_is_imported_without_anything_but_the_standard_library() -> None:
    """Also not by way of something else that it imports."""
    program = (
        "import sys; import apf_middleware.fairqueuing; "
        "print([name for name in ('asyncio', 'logging', 'pydantic', 'starlette', 'typer') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"


def test_the_package_is_typed() -> None:
    assert (ROOT / "apf_middleware" / "py.typed").exists()


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "LICENSE", "Makefile", ".ci/run", "pyproject.toml"])
def test_the_repository_has_what_a_visitor_looks_for(name: str) -> None:
    assert (ROOT / name).stat().st_size > 200
