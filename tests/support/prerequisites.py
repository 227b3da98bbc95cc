"""Skips for tests that need a program which may not be installed."""

import os

import pytest

from tests.support import databases

__all__ = ["require_postgres", "require_program", "require_redis"]


def require_program(found: object, package: str) -> None:
    """Skip the test if the program of ``package`` is missing; with ``CI`` set, fail instead."""
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{package} is not installed")
        pytest.skip(f"{package} is not installed: apt-get install {package}")


def require_postgres() -> None:
    """Skip the test if PostgreSQL is missing."""
    require_program(databases.postgres_programs(), "postgresql")


def require_redis() -> None:
    """Skip the test if Redis is missing."""
    require_program(databases.redis_program(), "redis-server")
