"""Figures of the package's structure: ``python -m tests.architecture.measures [folder]``.

Sizes, inheritance, import cycles with and without imports for type checking, duplicated names and comments, from the
syntax trees alone. Compare two versions by giving the package's folder of each.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = ["Module", "Package", "cycles"]

_COMMENT = re.compile(r"(^|\s)# (?!noqa|type:|pragma)")


@dataclass(frozen=True)
class Module:
    """One source file of the package."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def comments(self) -> int:
        return sum(bool(_COMMENT.search(line)) for line in self.text.splitlines())

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    def imports(self, *, typing: bool) -> Iterator[str]:
        """Yield the names that are imported, also those for type checking if ``typing``."""
        yield from _imports(self.tree, typing)


def _imports(tree: ast.AST, typing: bool) -> Iterator[str]:  # noqa: FBT001 - it calls itself
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not typing:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif not isinstance(node, ast.expr):
            yield from _imports(node, typing)


class Package:
    """The modules of a package, by name."""

    def __init__(self, folder: Path) -> None:
        self.modules: dict[str, Module] = {}
        self._graphs: dict[bool, Mapping[str, set[str]]] = {}
        for path in sorted(folder.rglob("*.py")):
            name = ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
            self.modules[name] = Module(name, path)

    def graph(self, *, typing: bool) -> Mapping[str, set[str]]:
        """Return the modules that each module imports."""
        if typing not in self._graphs:
            self._graphs[typing] = {
                name: {found for one in module.imports(typing=typing) if (found := self._module_of(one))} - {name}
                for name, module in self.modules.items()
            }
        return self._graphs[typing]

    def _module_of(self, imported: str) -> str:
        if imported in self.modules:
            return imported
        parent = imported.rpartition(".")[0]
        return parent if parent in self.modules else ""

    @cached_property
    def bases(self) -> Mapping[str, list[list[str]]]:
        """The names of the bases of each class, for each definition of that name."""
        found = defaultdict(list)
        for module in self.modules.values():
            for node in module.classes:
                found[node.name].append([ast.unparse(base).split("[")[0].rpartition(".")[2] for base in node.bases])
        return found

    def depth(self, name: str, seen: tuple[str, ...] = ()) -> int:
        """Return the length of the chain of classes of this package that ends in ``name``, itself included."""
        if name not in self.bases or name in seen:
            return 0
        return 1 + max((self.depth(one, (*seen, name)) for bases in self.bases[name] for one in bases), default=0)

    @property
    def deep(self) -> list[str]:
        """The classes that are deeper than an interface and its implementation, exceptions aside."""
        return sorted(name for name in self.bases if self.depth(name) > 2 and not name.endswith("Error"))

    @property
    def duplicates(self) -> list[str]:
        """The public names that several classes have."""
        return sorted(name for name, found in self.bases.items() if len(found) > 1 and not name.startswith("_"))

    def figures(self) -> dict[str, object]:
        """Return all figures, by what they measure."""
        modules = self.modules.values()
        lines = sum(module.lines for module in modules)
        return {
            "modules": len(modules),
            "lines": lines,
            "classes": sum(len(module.classes) for module in modules),
            "longest module": max(module.lines for module in modules),
            "classes deeper than 2": len(self.deep),
            "import cycles": [len(one) for one in cycles(self.graph(typing=False))],
            "import cycles for type checking": [len(one) for one in cycles(self.graph(typing=True))],
            "duplicated class names": self.duplicates,
            "comments in 100 lines": round(100 * sum(module.comments for module in modules) / lines, 1),
        }


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, the largest first: strongly connected components.

    Tarjan's algorithm: ``low`` is the earliest visited module that a module reaches among those not yet in a group.
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in order:
            visit(name)
    return sorted(found, key=len, reverse=True)


if __name__ == "__main__":
    for measured, figure in Package(Path(sys.argv[1] if len(sys.argv) > 1 else "apf_middleware")).figures().items():
        print(f"{measured:32} {figure}")
