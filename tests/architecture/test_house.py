"""The rules of the house that a program can check: sizes, names, exports, who imports whom."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest

import apf_middleware

ROOT = Path(apf_middleware.__file__).parents[1]
PACKAGE = sorted((ROOT / "apf_middleware").rglob("*.py"))
MODULE_CAP = 700
FUNCTION_CAP = 40

Function = ast.FunctionDef | ast.AsyncFunctionDef
Trees = Mapping[str, Sequence[ast.AST]]


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
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


@pytest.fixture(scope="module")
def trees() -> Trees:
    """Return the nodes of each module of the package, by its path."""
    return {relative(path): list(ast.walk(ast.parse(path.read_text()))) for path in PACKAGE}


def test_there_is_something_to_check() -> None:
    assert len(PACKAGE) > 20
    assert len(MODULES) > 20


def test_no_module_is_longer_than_the_cap() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in PACKAGE}

    assert {path: length for path, length in lengths.items() if length > MODULE_CAP} == {}


def test_no_function_is_longer_than_40_lines(trees: Trees) -> None:
    functions = [(path, node) for path, nodes in trees.items() for node in nodes if isinstance(node, Function)]
    long = [(path, node.name, lines) for path, node in functions if (lines := lines_of(node)) > FUNCTION_CAP]

    assert long == []


def test_the_measure_of_functions_bites() -> None:
    body = "\n".join("    x = 1" for _ in range(FUNCTION_CAP))
    [function] = ast.parse(f'def f():\n    """Text\n    of two lines."""\n{body}\n').body

    assert isinstance(function, Function)
    assert lines_of(function) == FUNCTION_CAP + 1


def test_a_module_opens_with_a_docstring(trees: Trees) -> None:
    modules = {path: node for path, nodes in trees.items() for node in nodes if isinstance(node, ast.Module)}

    assert len(modules) == len(PACKAGE)
    assert [path for path, node in modules.items() if not ast.get_docstring(node)] == []


def test_no_class_has_a_name_that_says_nothing(trees: Trees) -> None:
    classes = [(path, node.name) for path, nodes in trees.items() for node in nodes if isinstance(node, ast.ClassDef)]

    assert [(path, name) for path, name in classes if re.search(r"(Manager|Helper|Utils?)$", name)] == []


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


def test_a_module_exports_exactly_what_is_public() -> None:
    for name in MODULES:
        module = importlib.import_module(name)
        exported = module.__all__

        assert len(set(exported)) == len(exported), name
        assert [one for one in exported if not hasattr(module, one)] == [], name
        assert set(public_names(module)) - set(exported) == set(), name


def test_exports_are_sorted() -> None:
    """Constants, classes, functions, each by name, as ruff sorts them."""

    def order(one: str) -> tuple[int, str]:
        return (0 if one.isupper() else 1 if one[:1].isupper() else 2, one)

    for name in MODULES:
        exported = importlib.import_module(name).__all__
        assert list(exported) == sorted(exported, key=order), name


def test_the_top_exports_few_names() -> None:
    assert len(apf_middleware.__all__) <= 20


def test_no_module_hides_a_name_of_its_package() -> None:
    """Importing ``package.name`` replaces the object that the package exports as ``name``."""
    modules = [importlib.import_module(name) for name in MODULES]
    hidden = [
        f"{one.__name__}.{name}" for one in modules for name in one.__all__ if inspect.ismodule(getattr(one, name))
    ]
    assert hidden == []


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


@pytest.mark.parametrize("name", ["Admission", "Configuration", "Gates"])
def test_the_type_hints_of_public_classes_can_be_evaluated(name: str) -> None:
    """Frameworks that inject arguments ask for them; names that are only imported for type checking raise NameError."""
    public = getattr(apf_middleware, name)
    get_type_hints(public)
    for found in vars(public).values():
        function = found.fget if isinstance(found, property) else found
        if inspect.isfunction(function) and not function.__name__.startswith("_"):
            assert "return" in get_type_hints(function)
