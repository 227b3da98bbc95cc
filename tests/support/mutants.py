"""Mutants: modules with one deliberate defect, which the tests of a promise must find."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

__all__ = ["Mutant"]


@dataclass(frozen=True)
class Mutant:
    """A module whose text ``old``, which occurs once, is replaced by ``new``; ``defect`` describes the change."""

    defect: str
    module: str
    old: str
    new: str

    def __str__(self) -> str:
        return self.defect

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Let all modules use the mutant's functions and classes instead of the original ones."""
        original = import_module(self.module)
        changed = vars(self._load(original))
        names = {id(value): name for name, value in vars(original).items() if _is_own(value, original)}
        assert names, f"{self.module} defines nothing"
        with patch.dict(sys.modules):  # also restores modules that are imported meanwhile
            before = [(vars(module), name, value) for module in _modules() for name, value in _uses(module, names)]
            try:
                for space, name, value in before:
                    space[name] = changed[names[id(value)]]
                yield
            finally:
                for space, name, value in before:
                    space[name] = value

    def _load(self, original: ModuleType) -> ModuleType:
        assert original.__file__ is not None, "a module of the package has a file"
        source = Path(original.__file__).read_text(encoding="utf-8")
        assert source.count(self.old) == 1, f"{self.module} has {source.count(self.old)} times: {self.old}"
        mutant = ModuleType(f"{self.module}_mutant")
        with patch.dict(sys.modules, {mutant.__name__: mutant}):  # dataclasses look for their module
            exec(compile(source.replace(self.old, self.new), original.__file__, "exec"), vars(mutant))  # noqa: S102
        return mutant


def _is_own(value: object, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _modules() -> list[ModuleType]:
    return [one for name, one in sys.modules.items() if name.startswith(("apf_middleware.", "tests."))]


def _uses(module: ModuleType, names: dict[int, str]) -> list[tuple[str, object]]:
    return [(name, value) for name, value in vars(module).items() if id(value) in names]
