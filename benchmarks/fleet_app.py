"""The app of one worker in `benchmarks.fleet`: ``uvicorn --factory benchmarks.fleet_app:make_app``.

The environment names the backend's socket, the wrapper, and its configuration or the URL of its Redis. Besides, GET
``/fleet`` tells what the worker knows about its fleet; this bypasses the wrapper.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

import apf_middleware
from apf_middleware import APFMiddleware
from benchmarks.fleet_backend import BackendApp
from benchmarks.wire_apps import SEATS

__all__ = ["STATUS_PATH", "make_app", "worker_environment"]

STATUS_PATH: Final = "/fleet"
_SOCKET: Final = "APF_BENCHMARK_BACKEND"
_CONFIG: Final = "APF_BENCHMARK_CONFIG"
_REDIS: Final = "APF_BENCHMARK_REDIS"
_CONNECTIONS: Final = 1000  # one for each request that asks at the same time


def worker_environment(socket: Path, config: Path | None, redis: str | None) -> dict[str, str]:
    """Return the environment from which `make_app` makes the app: our middleware, or a semaphore in Redis."""
    found = {_SOCKET: str(socket)}
    if config is not None:
        found[_CONFIG] = str(config)
    if redis is not None:
        found[_REDIS] = redis  # for the configuration's fleet, or for the semaphore
    return found


class _Status:
    """``app``, and a path that tells what the middleware knows of its fleet."""

    def __init__(self, app: APFMiddleware) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != STATUS_PATH:
            await self._app(scope, receive, send)
            return
        body = json.dumps(self._reading()).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _reading(self) -> Mapping[str, Any]:
        fleet = self._app._service.fleet  # noqa: SLF001 - there is no other way, except for metrics by Prometheus
        reading = None if fleet is None else fleet.participant.reading()
        if reading is None:
            return {}
        names = ("granted", "in_use", "members", "is_allocator", "epochs", "overshoot", "fallback_ns")
        about = {name: getattr(reading, name) for name in names}
        return about | {"exchanges": reading.exchanges.count, "exchange_ns": reading.exchanges.total}


def make_app() -> ASGIApp:
    """Return the app that the environment describes."""
    app = BackendApp(os.environ[_SOCKET])
    if config := os.environ.get(_CONFIG):
        return _Status(apf_middleware.APFMiddleware(app, config=config))
    if url := os.environ.get(_REDIS):
        return _with_semaphore(app, url)
    return app


def _with_semaphore(app: ASGIApp, url: str) -> ASGIApp:
    from redis.asyncio import Redis  # noqa: PLC0415 - only where it is measured: no other row should need it

    from benchmarks.fleet_semaphore import RedisSemaphore  # noqa: PLC0415 - it imports redis

    return RedisSemaphore(app, Redis.from_url(url, max_connections=_CONNECTIONS), SEATS, str(os.getpid()))
