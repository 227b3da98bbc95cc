"""Fixtures for files of tokens."""

import os
from pathlib import Path

import pytest

from apf_middleware.asgi.identity.tokens import TokenAuthenticator
from apf_middleware.config.authentication import TokenSettings
from tests.support.token_files import FILE, Write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "tokens.csv").write_text(FILE)
    return tmp_path / "tokens.csv"


@pytest.fixture
def write(path: Path) -> Write:
    """Write the file anew, a second later each time as far as the file system knows."""
    written = 0

    def rewrite(text: str) -> None:
        nonlocal written
        written += 1
        path.write_text(text)
        os.utime(path, (written, written))

    return rewrite


@pytest.fixture
def tokens(path: Path) -> TokenAuthenticator:
    return TokenAuthenticator(TokenSettings(str(path)))
