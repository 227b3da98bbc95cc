"""What a process doesn't import, because it doesn't need it: imports are most of the time until a server runs."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]

OF_FEW_SERVERS: Final = [
    "apf_middleware.adapters",
    "apf_middleware.asgi.admin",
    "apf_middleware.asgi.console",
    "apf_middleware.asgi.control_socket",
    "apf_middleware.asgi.fleet",
    "apf_middleware.asgi.recording",
    "apf_middleware.asgi.shadow",
    "apf_middleware.cli",
    "apf_middleware.config.formats.kep",
    "apf_middleware.config.formats.kubernetes",
    "apf_middleware.config.jsonschema",
    "apf_middleware.config.scenario",
    "apf_middleware.gates",
    "apf_middleware.recordings",
    "apf_middleware.runtime.fleet",
    "apf_middleware.runtime.gate_runner",
    "apf_middleware.runtime.shadow",
    "apf_middleware.simulation",
    "apf_middleware.snapshots.fleet",
    "apf_middleware.snapshots.requests",
    "apf_middleware.snapshots.shadow",
    "apf_middleware.testing",
    "httpx",
    "multiprocessing",
    "opentelemetry",
    "redis",
    "typer",
    "uvicorn",
]
OF_SERVERS: Final = ["apf_middleware.asgi", "apf_middleware.metrics", "apf_middleware.runtime", "prometheus_client"]

SERVER: Final = "from apf_middleware import APFMiddleware; APFMiddleware(print).service"
COMMAND: Final = "import sys; sys.argv[1:] = {}; from apf_middleware.cli import main; main()"


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        pytest.param("import apf_middleware", ["apf_middleware.config", "pydantic", "starlette"], id="the package"),
        pytest.param(SERVER, OF_FEW_SERVERS, id="a server without a configuration"),
        pytest.param(COMMAND.format(["--version"]), ["apf_middleware.config", "pydantic", "starlette"], id="--version"),
        pytest.param(
            COMMAND.format(["check", "examples/config/plans.yaml"]), [*OF_SERVERS, "apf_middleware.gates"], id="check"
        ),
    ],
)
def test_what_is_not_needed_is_not_imported(code: str, unused: list[str]) -> None:
    told = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {code}"
    done = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    imported = done.stderr.split()
    assert "apf_middleware" in imported
    assert [name for name in unused if name in imported] == []
