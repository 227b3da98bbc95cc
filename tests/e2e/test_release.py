"""What is released: wheel and source distribution are whole, install where nothing is, and do what pages say."""

import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from apf_middleware import __version__
from tests.e2e.newcomer import Command, commands_of, files_of, missing, type_in
from tests.support.servers import free_port

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(300)  # a busy machine takes three times as long for builds and types

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()


def run(*command: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=folder, env=variables | environment, capture_output=True, text=True, check=False, timeout=240
    )


def built(folder: Path, *options: str) -> Path:
    result = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), *options, str(ROOT))
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make dist` fills it: the wheel is made from the source distribution."""
    return built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    [wheel] = dist.glob("*.whl")
    return wheel


def test_both_distributions_are_fit_for_an_index(dist: Path) -> None:
    files = sorted(map(str, dist.iterdir()))
    result = run(sys.executable, "-m", "twine", "check", "--strict", *files)

    assert [Path(file).name for file in files] == [
        f"apf_middleware-{__version__}-py3-none-any.whl",
        f"apf_middleware-{__version__}.tar.gz",
    ]
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("PASSED") == 2


def test_the_wheel_has_all_that_the_package_has_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "apf_middleware"
    files = {str(path.relative_to(ROOT)) for path in package.rglob("*") if path.is_file()}

    assert names == {file for file in files if "__pycache__" not in file}
    assert {
        "apf_middleware/py.typed",
        "apf_middleware/config/defaults/web.yaml",
        "apf_middleware/config/descriptions.yaml",
    } <= names


def test_the_source_distribution_has_what_is_needed_to_build_and_no_more(dist: Path) -> None:
    [archive] = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}

    assert {name for name in names if not name.startswith("apf_middleware/")} == {
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
    }


def test_the_wheel_is_the_same_whether_it_is_built_from_the_repository_or_from_the_source_distribution(
    wheel: Path, tmp_path: Path
) -> None:
    [direct] = built(tmp_path, "--wheel").glob("*.whl")

    assert direct.read_bytes() == wheel.read_bytes()


def test_everything_that_can_be_imported_is_typed() -> None:
    """For those who check their own code with pyright or mypy."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # it asks the first Python that it finds
    command = [sys.executable, "-m", "pyright", "--verifytypes", "apf_middleware", "--ignoreexternal"]
    result = run(*command, PYTHONPATH=str(ROOT), PATH=path)

    assert f'Package directory: "{ROOT / "apf_middleware"}"' in result.stdout, result.stdout + result.stderr
    assert "Type completeness score: 100%" in result.stdout, result.stdout[-4000:]


def test_without_the_extra_the_command_says_how_to_get_it(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False)
    python = str(tmp_path / "empty" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--quiet"]
    assert run(*pip, "install", "--no-deps", str(wheel)).returncode == 0

    result = run(str(tmp_path / "empty" / "bin" / "apf"), "--version")

    assert result.returncode == 1
    assert "pip install 'apf-middleware[cli]'" in result.stderr
    assert "Traceback" not in result.stderr


class Newcomer:
    """Somebody with an empty folder, for whom `pip install apf-middleware` brings the wheel that was just built."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        self.port = free_port()
        constraint = folder / "constraint.txt"
        constraint.write_text(f"apf-middleware=={__version__}\n")
        tools = folder / "tools"  # this Python, and nothing of the environment that the tests run in
        tools.mkdir()
        (tools / "python3").symlink_to(Path(sys.executable).resolve())
        path = [one for one in os.environ["PATH"].split(":") if one != str(Path(sys.executable).parent)]
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self.environment = kept | {
            "PATH": ":".join([str(tools), *path]),
            "PIP_CONSTRAINT": str(constraint),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",  # what is imported is compiled then, and the rest isn't
            "PIP_FIND_LINKS": f"{wheel.parent} {os.environ.get('PIP_FIND_LINKS', '')}",
            "UVICORN_PORT": str(self.port),
        }
        self.printed: list[tuple[Command, str]] = []

    def types(self, commands: list[Command]) -> None:
        here = [Command(one.text.replace(":8000", f":{self.port}"), one.shown) for one in commands]
        self.printed += zip(commands, type_in(here, self.folder, self.environment), strict=True)

    @contextmanager
    def server(self, command: str) -> Iterator[str]:
        """Run a command of the first terminal until afterwards, and return its output."""
        script = f". .venv/bin/activate; exec {command}"
        with (self.folder / "server.log").open("w") as log:
            process = subprocess.Popen(
                ["bash", "-c", script],  # noqa: S607 - as in the other terminal
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            url = f"http://127.0.0.1:{self.port}"
            try:
                self.wait_for(f"{url}/metrics", process)
                yield url
            finally:
                process.terminate()
                process.wait(timeout=60)

    def wait_for(self, url: str, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - on this machine
                    return
            except OSError:
                time.sleep(0.05)
        pytest.fail((self.folder / "server.log").read_text())


@pytest.fixture(scope="module")
def newcomer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    """After the tutorial."""
    newcomer = Newcomer(tmp_path_factory.mktemp("newcomer"), wheel)
    for name, text in files_of(TUTORIAL).items():
        (newcomer.folder / name).write_text(text)
    commands = commands_of(TUTORIAL)
    [start] = [place for place, command in enumerate(commands) if command.text.startswith("uvicorn")]
    newcomer.types(commands[:start])
    assert (newcomer.folder / ".venv" / "bin" / "apf").exists(), newcomer.printed
    with newcomer.server(commands[start].text):
        newcomer.types(commands[start + 1 :])
    return newcomer


def test_the_tutorial_works_as_it_is_typed(newcomer: Newcomer) -> None:
    assert sorted(files_of(TUTORIAL)) == ["apf.yaml", "app.py", "keys.csv"]
    for command, printed in newcomer.printed:
        assert missing(command, printed) == [], f"$ {command.text}\n{printed}"
    assert sum(bool(command.shown) for command, _ in newcomer.printed) >= 7


def test_the_light_client_of_the_tutorial_gets_the_next_seat(newcomer: Newcomer) -> None:
    [mouse] = [printed for command, printed in newcomer.printed if "%{time_total}" in command.text]

    assert 1.0 <= float(mouse.split()[2]) < 2.5  # all of the elephant's would be four


def test_the_installed_command_shows_its_version(newcomer: Newcomer) -> None:
    result = run(str(newcomer.folder / ".venv" / "bin" / "apf"), "--version", folder=newcomer.folder)

    assert (result.returncode, result.stdout) == (0, f"apf {__version__} (pure Python)\n")


def test_the_first_example_of_the_readme_runs_from_the_wheel(newcomer: Newcomer) -> None:
    program = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    (newcomer.folder / "first.py").write_text(program)

    with (
        newcomer.server("uvicorn first:app") as url,
        urllib.request.urlopen(f"{url}/openapi.json", timeout=10),  # noqa: S310 - on this machine
        urllib.request.urlopen(f"{url}/metrics", timeout=10) as metrics,  # noqa: S310 - on this machine
    ):
        assert b'apf_dispatched_requests_total{flow_schema="anonymous-clients"' in metrics.read()


def test_a_page_with_wrong_output_is_detected(tmp_path: Path) -> None:
    page = "```console\n$ echo one; echo 200; echo three\none\n…\nthree\n$ printf 'a\\nb\\n'\nb\na\n```\n"

    commands = commands_of(page)
    printed = type_in(commands, tmp_path, dict(os.environ))

    assert [missing(*pair) for pair in zip(commands, printed, strict=True)] == [[], ["a"]]


Job = dict[str, Any]


def workflows() -> dict[str, dict[Any, Any]]:
    return {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yaml")}


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield the jobs that have steps, by name; the others only call another workflow."""
    for flow in workflows().values():
        yield from ((name, job) for name, job in flow["jobs"].items() if "uses" not in job)


def test_workflows_use_targets_that_exist() -> None:
    """What runs on GitHub is what runs here."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = [step for _, job in jobs() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    ci = (ROOT / ".ci" / "run").read_text()

    assert sorted(workflows()) == ["release.yaml", "test.yaml", "wheels.yaml"]
    assert all("uses" in step or "run" in step for step in steps)
    assert {target for run in commands for target in re.findall(r"make (\w+)", run)} == {"docs", "dist", "types"}
    assert sum(run.startswith("bash .ci/run") for run in commands) == 2  # system packages, and the tests of both builds
    assert re.findall(r"^make (\S+)", ci, re.MULTILINE) == ["test", "test-native"]
    assert {target for run in (*commands, ci) for target in re.findall(r"^make (\S+)", run, re.MULTILINE)} <= targets


def test_workflows_can_do_no_more_than_they_need() -> None:
    """Tokens read; only the job that publishes may ask for an identity, and it has no password."""
    assert [flow["permissions"] for flow in workflows().values()] == [{"contents": "read"}] * 3
    for name, job in jobs():
        assert job.get("permissions", {}) in ({}, {"id-token": "write"})
        assert ("id-token" in job.get("permissions", {})) == (name == "publish")
        assert job["timeout-minutes"] <= 60
    assert not any("secrets." in path.read_text() for path in (ROOT / ".github/workflows").iterdir())


def test_a_release_publishes_all_that_was_built_and_tested() -> None:
    release, wheels = workflows()["release.yaml"]["jobs"], workflows()["wheels.yaml"]["jobs"]
    called = [job["uses"] for job in release.values() if "uses" in job]
    uploads = [step["with"] for job in wheels.values() for step in job["steps"] if "upload" in step.get("uses", "")]
    [download] = [step["with"] for step in release["publish"]["steps"] if "download" in step["uses"]]

    assert called == ["./.github/workflows/wheels.yaml"]
    assert "workflow_call" in workflows()["wheels.yaml"][True]  # YAML reads the key "on" as a boolean
    assert sorted(release["publish"]["needs"]) == sorted(release.keys() - {"publish"})
    assert download == {"pattern": "dist-*", "merge-multiple": True, "path": "dist/"}
    assert [upload["name"] for upload in uploads] == ["dist-pure", "dist-compiled-${{ strategy.job-index }}"]
    assert {upload["path"] for upload in uploads} == {"dist/"}


def test_wheels_are_compiled_for_each_version_of_python_that_is_supported() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    versions = re.findall(r"Python :: 3\.(\d+)", " ".join(settings["project"]["classifiers"]))
    wheels = settings["tool"]["cibuildwheel"]
    steps = workflows()["wheels.yaml"]["jobs"]["compiled"]["steps"]

    assert wheels["build"].split() == [f"cp3{version}-*" for version in versions]
    assert wheels["environment"] == {"HATCH_BUILD_HOOK_ENABLE_MYPYC": "1"}
    assert workflows()["test.yaml"]["jobs"]["test"]["strategy"]["matrix"]["python"] == [f"3.{one}" for one in versions]
    assert wheels["test-command"] == "python {project}/tests/smoke.py compiled"
    assert "python -m pip install --group wheels" in [step.get("run") for step in steps]
    assert [one.partition(">")[0] for one in settings["dependency-groups"]["wheels"]] == ["cibuildwheel"]


@pytest.mark.parametrize(("build", "status"), [("pure", 0), ("compiled", 1)])
def test_the_smoke_test_tells_the_builds_apart(newcomer: Newcomer, build: str, status: int) -> None:
    python = str(newcomer.folder / ".venv" / "bin" / "python")
    result = run(python, str(ROOT / "tests" / "smoke.py"), build, folder=newcomer.folder)

    assert result.returncode == status, result.stdout + result.stderr
    assert ("(pure) works with Python" in result.stdout) is (status == 0)
