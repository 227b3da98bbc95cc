"""A directory for sockets, whose path is short enough for them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="apf-") as folder:
        yield Path(folder)
