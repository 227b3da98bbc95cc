"""Each module has a unit test file of its name, and each unit test file has a module of its name."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "apf_middleware"
UNIT: Final = ROOT / "tests" / "unit"

DECLARATIONS: Final = {
    "__main__.py": "calls the command",
    "_version.py": "one constant",
    "config/formats/definition.py": "values without behaviour",
    "config/formats/versions.py": "values without behaviour",
    "fleet/samples.py": "values without behaviour",
    "propagation/current.py": "one variable",
    "runtime/seat_finder.py": "an interface",
    "runtime/seats_holder.py": "an interface",
    "snapshots/fleet.py": "values without behaviour",
    "snapshots/requests.py": "values without behaviour",
    "snapshots/shadow.py": "values without behaviour",
}
"""Modules in which there is nothing to test, with the reason."""

ELSEWHERE: Final = {
    # Clients of other libraries and servers, with which they are tested.
    "adapters/asyncpg.py": "integration/adapters/test_asyncpg.py",
    "adapters/breakers.py": "integration/adapters/test_breakers.py",
    "adapters/httpx.py": "integration/adapters/test_httpx.py",
    "adapters/lua.py": "integration/adapters/test_redis_outages.py",
    "adapters/purgatory.py": "integration/adapters/test_breakers.py",
    "adapters/pybreaker.py": "integration/adapters/test_breakers.py",
    "adapters/redis.py": "integration/adapters/test_redis.py",
    "adapters/redis_connections.py": "integration/adapters/test_redis_outages.py",
    "adapters/shared_places.py": "integration/adapters/test_redis.py",
    "adapters/sqlalchemy.py": "integration/adapters/test_sqlalchemy.py",
    "propagation/outgoing.py": "unit/adapters/test_httpx_calls.py",
    # What surrounds or awaits a whole app, on asyncio and on trio.
    "asgi/control_socket.py": "integration/test_control_sockets.py",
    "asgi/fleet.py": "integration/test_fleet.py",
    "asgi/fleet_notices.py": "integration/test_fleet_notices.py",
    "asgi/load_reports.py": "integration/test_load_reports.py",
    "asgi/coroutines.py": "integration/test_streams.py",
    "asgi/middleware.py": "integration/test_startup.py",
    "asgi/passing.py": "integration/test_modes.py",
    "asgi/replies.py": "integration/test_streams.py",
    "asgi/request_handler.py": "integration/test_transparency.py",
    "asgi/readiness.py": "integration/test_load_reports.py",
    "asgi/request_deadlines.py": "integration/test_request_deadlines.py",
    "asgi/resolver.py": "integration/test_resolver.py",
    "asgi/scrape.py": "integration/test_publishing.py",
    "asgi/service.py": "integration/test_saturated_reload.py",
    "asgi/startup_gates.py": "integration/test_gates.py",
    "asgi/tracing.py": "integration/test_tracing.py",
    "asgi/upload.py": "integration/test_uploads.py",
    "runtime/fleet/host.py": "integration/test_fleet.py",
    "runtime/fleet/host_allocator.py": "integration/test_fleet.py",
    "runtime/fleet/redis_fleet.py": "integration/test_redis_fleet.py",
    "runtime/fleet/redis_link.py": "integration/test_redis_link.py",
    "runtime/fleet/redis_scripts.py": "integration/test_redis_link.py",
    "runtime/gate_runner.py": "integration/test_gates.py",
    "runtime/waiting.py": "integration/test_waiting.py",
    # Settings and what they make of requests.
    "config/queues.py": "integration/test_queues.py",
    "runtime/configured_gates.py": "integration/test_gates.py",
    "runtime/queues/naming.py": "integration/test_queues.py",
    # Random cases against a plain twin.
    "runtime/incoming_bodies.py": "property/test_incoming_bodies.py",
    # Commands that need a server with workers.
    "cli/dump.py": "e2e/test_dump.py",
}
"""Modules that other kinds of tests show at work, with the file of the most direct ones."""

AS_ONE: Final = {"config/scenario"}
"""Packages that are tested as a whole, in the file of the package's name: their modules declare parts of a document."""


def expected(module: Path) -> Path:
    """Return the unit test file of a module; that of a package's own code has the name of the package."""
    return module.parent / f"test_{module.name}" if module.name != "__init__.py" else _of_package(module.parent)


def _of_package(package: Path) -> Path:
    return package.parent / f"test_{package.name}.py"


def has_code(module: Path) -> bool:
    """Return whether an ``__init__.py`` does more than import and export; any other module has code."""
    if module.name != "__init__.py":
        return True
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("__")
        for node in ast.parse((PACKAGE / module).read_text()).body
    )


@cache
def wanted() -> dict[Path, str]:
    """Return the test files that there must be, with the module or package that each is for."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE)
        package = str(module.parent)
        if package in AS_ONE:
            found[_of_package(module.parent)] = package
        elif has_code(module) and str(module) not in DECLARATIONS:
            found[expected(module)] = str(module)
    return found


@cache
def unit_tests() -> set[Path]:
    return {path.relative_to(UNIT) for path in UNIT.rglob("test_*.py")}


def test_each_module_has_a_unit_test_file_of_its_name() -> None:
    missing = {module for test, module in wanted().items() if test not in unit_tests()}

    assert sorted(missing - ELSEWHERE.keys()) == []


def test_each_unit_test_file_has_a_module_of_its_name() -> None:
    assert sorted(map(str, unit_tests() - wanted().keys())) == []


def test_exceptions_are_needed() -> None:
    tested = {module for test, module in wanted().items() if test in unit_tests()}

    assert sorted(ELSEWHERE.keys() & tested) == []
    assert [module for module in (*DECLARATIONS, *ELSEWHERE) if not (PACKAGE / module).exists()] == []
    assert [test for test in ELSEWHERE.values() if not (ROOT / "tests" / test).exists()] == []
