"""Real databases, one of each for all tests; without them there is nothing to test."""

import os
from collections.abc import Iterator

import pytest

from benchmarks import databases
from benchmarks.databases import Postgres, Redis


def need(found: object, package: str) -> None:
    """Skip where a package isn't installed, which may not happen unnoticed in CI."""
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{package} is not installed")
        pytest.skip(f"{package} is not installed: apt-get install {package}")


def need_postgres() -> None:
    need(databases.postgres_programs(), "postgresql")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    need_postgres()
    with databases.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    need(databases.redis_program(), "redis-server")
    with databases.redis() as server:
        yield server
