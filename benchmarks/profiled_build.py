"""Record what the compiled build does most, so that the compiler can optimise it for that.

    python -m benchmarks.profiled_build SOURCE FOLDER [--no-build-isolation]

SOURCE is what pip can build a wheel from. An instrumented wheel is built, which counts how often each branch is taken,
and runs some benchmarks. After that, FOLDER/cflags has the compiler's options for the wheel to be released. Build that
with the environment variables ``CFLAGS=@FOLDER/cflags`` and ``HATCH_MYPYC_BUILD_DIR=FOLDER/build``, as the counts are
found by the paths of the object files. The file is empty if the compiler isn't GCC, whose options these are.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["WORKLOADS", "compiler_options", "is_gcc", "main"]

WORKLOADS: Final = (
    "overhead --only ours --rounds 3 --requests 4096 --crowd 2000 --loop asyncio",
    "leaks --requests 3000 --warm-up 3000",
    "classify --requests 10000",
    *(
        f"core --queues 64 1024 --crowds 1000 --repetitions 2 --requests 5000 --discipline {discipline}"
        for discipline in ("equal-serial", "max-min-serial", "max-min-concurrent")
    ),
    "core --exact --queues 64 --crowds 1000 --repetitions 2 --requests 5000",
    "core --sharing --queues 64 --repetitions 2 --requests 5000",
    "simulate --requests 20000",
)
"""The benchmarks that the instrumented build runs, with their arguments: some seconds of what a server does."""

# The modules of the package are one library. With hidden names they call each other directly, and may be inlined.
_LINKED_TOGETHER: Final = ("-flto=auto", "-fvisibility=hidden")
_ROOT: Final = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profiled_build", description="Profile a compiled build."
    )
    parser.add_argument("source", type=Path, help="a source distribution or a folder with pyproject.toml")
    parser.add_argument("folder", type=Path, help="is emptied, and gets the counts and the compiler's options")
    parser.add_argument("--no-build-isolation", action="store_true", help="what the build needs is installed")
    options = parser.parse_args(arguments)
    if not options.source.exists():
        parser.error(f"there is no {options.source}")
    folder: Path = options.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    build = folder / "build"
    build.mkdir(parents=True)
    if not is_gcc():
        (folder / "cflags").write_text("")
        print("The compiler isn't GCC: the wheel will be built without a profile")
        return
    cflags = " ".join((*_LINKED_TOGETHER, f"-fprofile-generate={folder}/counts"))
    compiled = _environment(CFLAGS=cflags, HATCH_MYPYC_BUILD_DIR=str(build))
    isolation = ["--no-build-isolation"] if options.no_build_isolation else []
    wheels = folder / "wheel"
    _run("pip", "wheel", "--no-deps", *isolation, f"--wheel-dir={wheels}", str(options.source), variables=compiled)
    _run("pip", "install", f"--target={folder}/package", *map(str, wheels.glob("*.whl")), variables=os.environ)
    _run_workloads(folder)
    shutil.rmtree(build)
    build.mkdir()  # the counts have its path, and the next build must find it empty
    (folder / "cflags").write_text(" ".join(compiler_options(folder)))


def is_gcc() -> bool:
    """Return whether the C compiler of the build is GCC."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - CC
    return "Free Software Foundation" in version.stdout


def compiler_options(folder: Path) -> Sequence[str]:
    """Return the options for a build that uses the counts in ``folder``."""
    return (
        *_LINKED_TOGETHER,
        f"-fprofile-use={folder}/counts",
        "-fprofile-partial-training",  # what the benchmarks don't run is optimised as without a profile
        "-w",  # warnings were errors in the instrumented build, and those about counts are of no use
        "-fno-plt",
    )


def _run_workloads(folder: Path) -> None:
    """Run the benchmarks with the instrumented package, which comes before others on the path."""
    workplace = folder / "workplace"
    workplace.mkdir()
    for name in ("benchmarks", "tests"):  # not the package, which would come first
        (workplace / name).symlink_to(_ROOT / name)
    variables = _environment(PYTHONPATH=os.pathsep.join([f"{folder}/package", str(workplace)]))
    check = "import apf_middleware as a; assert a.is_compiled, f'{a.__file__} is not compiled'"
    _run("-c", check, variables=variables, folder=workplace)
    for workload in WORKLOADS:
        print(f"profiling: python -m benchmarks.{workload}", flush=True)
        name, *arguments = workload.split()
        _run(f"benchmarks.{name}", *arguments, variables=variables, folder=workplace)


def _environment(**variables: str) -> Mapping[str, str]:
    return {**os.environ, "HATCH_BUILD_HOOK_ENABLE_MYPYC": "1", **variables}


def _run(what: str, *arguments: str, variables: Mapping[str, str], folder: Path | None = None) -> None:
    """Run a module or ``-c``, and show what it has written if it fails."""
    command = [sys.executable, *([] if what == "-c" else ["-m"]), what, *arguments]
    done = subprocess.run(  # noqa: S603 - this interpreter
        command, env=variables, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(command)} failed with exit code {done.returncode}")


if __name__ == "__main__":
    main()
