"""Rules for the modules that the compiled build compiles, as pyproject.toml lists them."""

import ast
import importlib
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import apf_middleware
from tests.architecture.measures import Module, Package, cycles

ROOT: Final = Path(apf_middleware.__file__).parents[1]
# a middleware, a simulation, and the parts of an allocator and of a shadow that tests replace
NEVER_COPIED: Final = {"FleetTotal", "RequestHandler", "Simulation", "TypicalDurations"}
SUBCLASSED: Final = "mypyc_attr(allow_interpreted_subclasses=True)"


@cache
def patterns(setting: str = "include") -> list[str]:
    """Return the paths of modules and packages in the settings of the build hook."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[str] = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"][setting]
    return [pattern.removeprefix("/") for pattern in found]


def is_compiled(module: Module) -> bool:
    path = str(module.path.relative_to(ROOT))
    is_included = any(path == one or (one.endswith("/") and path.startswith(one)) for one in patterns())
    return is_included and path not in patterns("exclude")


@pytest.fixture(scope="module")
def package() -> Package:
    return Package(ROOT / "apf_middleware")


@pytest.fixture(scope="module")
def compiled(package: Package) -> Mapping[str, Module]:
    return {name: module for name, module in package.modules.items() if is_compiled(module)}


def test_everything_listed_exists_and_something_is(compiled: Mapping[str, Module]) -> None:
    assert [pattern for pattern in patterns() + patterns("exclude") if not (ROOT / pattern).exists()] == []
    assert [pattern for pattern in patterns() if (ROOT / pattern).is_dir() is not pattern.endswith("/")] == []
    assert patterns() == sorted(patterns())
    assert len(compiled) > 40


@pytest.mark.parametrize("typing", [False, True], ids=["at run time", "for type checking"])
def test_compiled_modules_import_each_other_in_one_direction(
    package: Package,
    compiled: Mapping[str, Module],
    typing: bool,  # noqa: FBT001 - a case
) -> None:
    graph = package.graph(typing=typing)
    among = {name: graph[name] & compiled.keys() for name in compiled}

    assert sum(len(imported) for imported in among.values()) > len(compiled)
    assert cycles(among) == []


def decorators(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(decorator) for decorator in node.decorator_list]


def test_frozen_values_can_be_copied(compiled: Mapping[str, Module]) -> None:
    """The default of a compiled class tries to assign to the fields of the copy."""
    frozen = {
        node.name: [ast.unparse(base) for base in node.bases]
        for module in compiled.values()
        for node in module.classes
        if any("frozen=True" in one for one in decorators(node))
    }

    assert len(frozen) > 20
    assert [name for name, bases in frozen.items() if bases != ["Value"]] == []


def interpreted_subclasses(package: Package, compiled: Mapping[str, Module]) -> Iterator[type]:
    """Yield the compiled classes, protocols aside, that interpreted modules of the package subclass."""
    for name in package.modules.keys() - compiled.keys() - {"apf_middleware.__main__"}:
        for one in vars(importlib.import_module(name)).values():
            if isinstance(one, type) and one.__module__ == name:
                bases = (base for base in one.__bases__ if base.__module__ in compiled)
                yield from (base for base in bases if not getattr(base, "_is_protocol", False))


def test_what_interpreted_modules_subclass_allows_it(package: Package, compiled: Mapping[str, Module]) -> None:
    """Otherwise the first instance of the subclass raises TypeError."""
    allowing = {
        (name, node.name)
        for name, module in compiled.items()
        for node in module.classes
        if SUBCLASSED in decorators(node)
    }
    needed = {(one.__module__, one.__qualname__) for one in interpreted_subclasses(package, compiled)}

    assert needed
    assert needed - allowing == set()


def test_what_may_be_subclassed_has_a_state_to_copy(compiled: Mapping[str, Module]) -> None:
    """The default state of a compiled class lacks what an interpreted subclass adds."""
    for name, module in compiled.items():
        for node in module.classes:
            if SUBCLASSED in decorators(node) and node.name not in NEVER_COPIED:
                found = getattr(importlib.import_module(name), node.name)
                assert found.__getstate__ is not object.__getstate__, found
                assert hasattr(found, "__setstate__"), found


def test_abstract_methods_of_what_may_be_subclassed_raise(compiled: Mapping[str, Module]) -> None:
    """Compiled, the call of one without code aborts the process if it should return a value."""
    classes = [node for module in compiled.values() for node in module.classes if SUBCLASSED in decorators(node)]
    methods = [one for node in classes for one in node.body if isinstance(one, ast.FunctionDef)]
    abstract = [one for one in methods if "abstractmethod" in map(ast.unparse, one.decorator_list)]

    assert abstract
    assert [one.name for one in abstract if ast.unparse(one.body[-1]) != "raise NotImplementedError"] == []


def declared(node: ast.ClassDef) -> set[str]:
    """Return the attributes of instances that the class annotates."""
    body = {
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        if not ast.unparse(statement.annotation).startswith("ClassVar")
    }
    return body | {
        ast.unparse(inner.target).removeprefix("self.")
        for inner in ast.walk(node)
        if isinstance(inner, ast.AnnAssign) and ast.unparse(inner.target).startswith("self.")
    }


def test_no_attribute_is_declared_again_in_a_subclass(compiled: Mapping[str, Module]) -> None:
    """Mypyc would show it to the garbage collector twice, which then takes live objects for garbage."""
    nodes = {node.name: node for module in compiled.values() for node in module.classes}

    def bases(node: ast.ClassDef) -> Iterator[ast.ClassDef]:
        for base in node.bases:
            found = nodes.get(ast.unparse(base).partition("[")[0])
            if found is not None:
                yield found
                yield from bases(found)

    pairs = [(node, base) for node in nodes.values() for base in bases(node)]
    again = {(node.name, base.name): declared(node) & declared(base) for node, base in pairs}

    assert len(again) > 40
    assert {pair: names for pair, names in again.items() if names} == {}
