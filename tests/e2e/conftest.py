"""Fixtures that several end-to-end tests use."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.browser import Browser, browser, chromium
from tests.support.command_line import Outcome, run_apf, run_installed
from tests.support.prerequisites import require_program

Apf = Callable[..., Outcome]


@pytest.fixture
def apf() -> Apf:
    """Return the command ``apf``, in this process."""
    return run_apf


@pytest.fixture(params=[False, True], ids=["command", "module"])
def installed(request: pytest.FixtureRequest) -> Apf:
    """Return the installed command, and ``python -m apf_middleware``."""
    return lambda *arguments: run_installed(*arguments, as_module=request.param)


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    require_program(chromium(), "chromium")
    with browser() as found:
        yield found
