"""Optional libraries: they aren't imported unneeded, and the error for a missing one names its extra."""

import importlib
import subprocess
import sys

import pytest

from apf_middleware.exceptions import MissingExtraError

LIBRARIES = {"sqlalchemy": "sqlalchemy", "httpx": "httpx", "pybreaker": "breakers"}


@pytest.mark.parametrize(("library", "extra"), LIBRARIES.items())
def test_the_error_for_a_missing_library_names_the_extra(
    library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"apf_middleware.adapters.{library}", raising=False)

    with pytest.raises(MissingExtraError, match=rf"pip install 'apf-middleware\[{extra}\]'"):
        importlib.import_module(f"apf_middleware.adapters.{library}")


def test_the_package_imports_no_optional_library() -> None:
    program = (
        "import sys, apf_middleware, apf_middleware.adapters, apf_middleware.adapters.asyncpg;"
        "import apf_middleware.adapters.redis, apf_middleware.adapters.purgatory;"
        "print(sorted({'sqlalchemy', 'asyncpg', 'redis', 'httpx', 'purgatory', 'pybreaker'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
