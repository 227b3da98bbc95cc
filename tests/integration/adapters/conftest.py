"""One PostgreSQL and one Redis server for all tests of adapters; the tests are skipped where these are missing."""

from collections.abc import Iterator

import pytest

from tests.support import databases
from tests.support.databases import Postgres, Redis
from tests.support.prerequisites import require_postgres, require_redis


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    require_postgres()
    with databases.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    require_redis()
    with databases.redis() as server:
        yield server
