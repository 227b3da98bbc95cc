"""The Python interpreters that run the servers of a benchmark: its own, and one with the compiled build."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.wire_builds import Build
from tests.support.servers import ROOT

__all__ = ["Interpreter", "WrongBuildError", "compiled_interpreter"]


class WrongBuildError(RuntimeError):
    """A server runs another build of the package than its row is for."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter, the folder and variables of its servers; without arguments the benchmark's own."""

    python: str = sys.executable
    folder: Path = ROOT
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        return self.folder == ROOT

    def check(self, output: str) -> Build:
        """Return the build that a server has printed, or raise a WrongBuildError."""
        build, here = Build.printed(output), Build.here()
        if build is None:
            raise WrongBuildError(f"a server of {self.python} did not print which build it runs:\n{output}")
        if self.is_own and build != here:
            raise WrongBuildError(
                f"a server runs the {build.name} build in {build.package}, not that in {here.package}"
            )
        if not self.is_own and (not build.is_compiled or build.package == here.package):
            raise WrongBuildError(
                f"{self.python} runs the {build.name} build in {build.package}, not an installed and compiled one. "
                "Make one with: make native"
            )
        return build


@contextlib.contextmanager
def compiled_interpreter(python: Path) -> Iterator[Interpreter]:
    """Servers of ``python`` run in a folder that has the benchmarks but not the package, which must be installed."""
    with tempfile.TemporaryDirectory(prefix="apf-compiled-") as name:
        folder = Path(name)
        (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
        # Not resolved: the interpreter of a virtual environment is a link, and finds packages from where the link is.
        yield Interpreter(str(python.absolute()), folder, {"PYTHONPATH": str(folder)})
