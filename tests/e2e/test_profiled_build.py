"""The profile of the compiled build, which `make native` makes with GCC."""

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks import profiled_build
from benchmarks.profiled_build import WORKLOADS, compiler_options
from tests.support.servers import ROOT


def compiler(folder: Path, version: str) -> str:
    """Return the path of a compiler that does no more than to print its version."""
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\necho {shlex.quote(version)}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_each_workload_has_arguments_that_its_benchmark_takes(workload: str) -> None:
    name, *arguments = workload.split()
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments, "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert result.returncode == 0, result.stderr
    options = {argument for argument in arguments if argument.startswith("--")}
    assert options <= set(result.stdout.replace("[", " ").replace("]", " ").split())


def test_without_gcc_the_build_has_no_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, "clang version 19.1.7"))
    folder = tmp_path / "profile"
    folder.mkdir()
    (folder / "left over").touch()

    profiled_build.main([str(ROOT), str(folder)])

    assert {path.name for path in folder.iterdir()} == {"build", "cflags"}
    assert (folder / "cflags").read_text() == ""
    assert capsys.readouterr().out == "The compiler isn't GCC: the wheel will be built without a profile\n"


def test_gcc_is_recognised_by_who_publishes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cc` and `c99` are names of it too, and `gcc` is a name of clang on macOS."""
    monkeypatch.setenv("CC", f"{compiler(tmp_path, 'cc 14.2 (C) 2024 Free Software Foundation, Inc.')} -pthread")
    assert profiled_build.is_gcc()
    monkeypatch.setenv("CC", compiler(tmp_path, "Apple clang version 17.0.0"))
    assert not profiled_build.is_gcc()


def test_a_build_that_fails_ends_with_what_pip_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler(tmp_path, "Free Software Foundation"))
    source = tmp_path / "source.tar.gz"
    source.write_bytes(b"no archive")

    with pytest.raises(SystemExit, match=r"(?s)source\.tar\.gz.*pip wheel .* failed with exit code \d"):
        profiled_build.main([str(source), str(tmp_path / "profile"), "--no-build-isolation"])


def test_a_missing_source_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        profiled_build.main([str(tmp_path / "nothing"), str(tmp_path / "profile")])
    assert capsys.readouterr().err.endswith(f"error: there is no {tmp_path}/nothing\n")


def test_wheels_for_linux_are_built_with_the_profile_that_is_made_before() -> None:
    wheels = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    variables = wheels["linux"]["environment"]
    folder = wheels["linux"]["before-build"].split()[-1]

    assert variables == {
        **wheels["environment"],
        "HATCH_MYPYC_BUILD_DIR": f"{folder}/build",
        "CFLAGS": f"@{folder}/cflags",
    }
    assert f"-fprofile-use={folder}/counts" in compiler_options(Path(folder))
