"""Files that are read again when they change."""

import os
from pathlib import Path

import pytest

from apf_middleware.asgi.identity.tokens import TokenAuthenticator
from apf_middleware.asgi.identity.watched import MAX_BYTES, WatchedFile
from apf_middleware.config.authentication import TokenSettings
from apf_middleware.exceptions import InvalidValueError
from tests.support.authentication import identity_of, request
from tests.support.token_files import FILE, Write, bearer


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InvalidValueError, match="regular file"):
        TokenAuthenticator(TokenSettings(str(tmp_path / "pipe")))


def test_a_file_that_is_too_long_is_not_read_whole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)

    with pytest.raises(InvalidValueError, match="must not be longer"):
        WatchedFile("file", str(path), bytes)


def test_an_error_says_where_a_relative_path_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def hint(path: str) -> str:
        with pytest.raises(InvalidValueError) as caught:
            WatchedFile("file", path, bytes)
        return caught.value.hint

    assert hint(str(tmp_path / "none")) == "Check path and permissions"
    start = f"A relative path starts in the working directory, {tmp_path}"
    assert hint("none") == f"Check path and permissions. {start}"


def test_an_unchanged_file_changes_nothing(tokens: TokenAuthenticator, write: Write) -> None:
    write(FILE)

    assert not tokens.refresh()


def test_a_file_of_the_same_size_is_known_by_its_time(tokens: TokenAuthenticator, write: Write) -> None:
    write(FILE.replace("secret-a", "secret-x"))

    assert tokens.refresh()
    assert identity_of(tokens, request(bearer("secret-x"))).name == "alice"


def test_another_file_of_the_same_size_and_time_is_detected(tokens: TokenAuthenticator, path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_text(FILE.replace("secret-a", "secret-x"))
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)

    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert tokens.refresh()
    assert identity_of(tokens, request(bearer("secret-x"))).name == "alice"
