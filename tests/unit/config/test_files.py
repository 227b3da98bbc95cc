"""Paths to files."""

import os
from pathlib import Path

import pytest

from apf_middleware.config import ConfigurationError, load, read
from apf_middleware.config.files import find_files
from apf_middleware.config.problems import Problems

LEVEL = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: %s}\nspec: {}\n"


def found(*paths: Path | str) -> list[str]:
    problems = Problems()
    files = find_files(paths, problems)
    assert list(problems) == []
    return [file.name for file in files]


def test_directories_and_globs_stand_for_their_files(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "d.txt", ".e.yaml"):
        (tmp_path / name).write_text(LEVEL % name[0])
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "f.yaml").write_text("")

    assert found(tmp_path) == ["a.yml", "b.yaml", "c.json"]
    assert found(f"{tmp_path}/**/*.yaml") == ["b.yaml", "f.yaml"]
    assert found(tmp_path / "d.txt") == ["d.txt"]
    assert found(tmp_path, tmp_path / "b.yaml", f"{tmp_path}/../{tmp_path.name}/b.yaml") == [
        "a.yml",
        "b.yaml",
        "c.json",
    ]
    assert {"a", "b", "c"} <= load(tmp_path).levels.keys()


@pytest.mark.parametrize("separator", ["---\n\ufeff", "\ufeff---\n", "---\r\n\ufeff# comment\r\n"])
def test_concatenated_files_may_have_byte_order_marks(tmp_path: Path, separator: str) -> None:
    text = f"\ufeff{LEVEL % 'a'}{separator}{LEVEL % 'b'}{separator}{LEVEL % 'c'}"
    (tmp_path / "a.yaml").write_text(text, newline="")

    assert {"a", "b", "c"} <= load(tmp_path / "a.yaml").levels.keys()


def test_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "big.yaml").write_bytes(b"a" * 10_000_000)
    (tmp_path / "empty").mkdir()
    paths: list[Path | str] = [
        tmp_path / "none.yaml",
        f"{tmp_path}/x*.yaml",
        tmp_path / "pipe",
        tmp_path / "big.yaml",
        tmp_path / "empty",
    ]

    problems = {Path(one.place.file).name: one.rule for one in read(paths).errors}

    assert "no such file" in problems["none.yaml"]
    assert "no file matches" in problems["x*.yaml"]
    assert "regular file" in problems["pipe"]
    assert "longer than" in problems["big.yaml"]
    assert "has no .yaml" in problems["empty"]


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, ""])
def test_odd_paths_are_reported(path: str) -> None:
    with pytest.raises(ConfigurationError):
        load(path)


def test_an_empty_path_is_not_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "level.yaml").write_text(LEVEL % "a")
    monkeypatch.chdir(tmp_path)

    [error] = read([""]).errors

    assert "the path is empty" in error.rule


def test_an_empty_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")

    reading = read([tmp_path], allow_empty=True)

    assert [problem.rule for problem in reading.warnings] == ["there is no document in it"]
    assert not reading.errors


def test_an_error_about_a_relative_path_says_where_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)

    def hints(*paths: str) -> list[str]:
        problems = Problems()
        find_files(paths, problems)
        return [problem.hint for problem in problems.errors]

    start = "A relative path starts in the working directory"
    assert hints("none.yaml", "none*.yaml") == [f"{start}, {place}"] * 2
    assert hints(str(place / "none.yaml"), "") == ["", ""]
    place.rmdir()
    assert hints("none.yaml") == [f"{start}, which is missing"]
