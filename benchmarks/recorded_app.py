"""An app with routes and a lifespan in front of the backend, for recordings of its traffic."""

import os
from pathlib import Path
from random import Random

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from apf_middleware import APFMiddleware
from benchmarks.wire_backend import Backend, Scoreboard

__all__ = ["CONFIG_VARIABLE", "make_app"]

CONFIG_VARIABLE = "APF_BENCHMARK_CONFIG"


def make_app() -> ASGIApp:
    """Return the app, with the configuration that the environment names."""
    backend = Backend(Scoreboard.from_environment(), Random(1))
    app = Starlette(routes=[Route("/{path:path}", backend)])
    return APFMiddleware(app, config=Path(os.environ[CONFIG_VARIABLE]))
