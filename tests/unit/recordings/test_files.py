"""Files of recordings, plain and compressed."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from apf_middleware.exceptions import MissingExtraError
from apf_middleware.recordings import files, open_recording, require_compression

TEXT = "one\ntwo é\n" * 1_000
ENDS = ["jsonl", "jsonl.gz", "jsonl.zst"]


@pytest.mark.parametrize("end", ENDS)
def test_what_is_written_is_read(tmp_path: Path, end: str) -> None:
    path = tmp_path / f"t.{end}"
    with open_recording(path, "x") as file:
        file.write(TEXT)

    with open_recording(path) as file:
        assert file.read() == TEXT
    assert (path.stat().st_size < len(TEXT)) is (end != "jsonl")
    with pytest.raises(FileExistsError):
        open_recording(path, "x")


@pytest.mark.parametrize("end", ENDS)
def test_what_was_flushed_can_be_read_while_the_file_is_open(tmp_path: Path, end: str) -> None:
    path, found = tmp_path / f"t.{end}", []
    with open_recording(path, "w") as file:
        file.write(TEXT)
        file.flush()
        with open_recording(path) as reader:
            try:
                for line in reader:
                    found.append(line)  # noqa: PERF402 - those before the error count
            except EOFError:
                assert end != "jsonl"

    assert "".join(found) == TEXT


def test_the_system_reads_what_is_compressed_with_zstd(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.zst"
    with open_recording(path, "w") as file:
        file.write(TEXT)

    assert subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout.decode() == TEXT  # noqa: S607


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.version_info >= (3, 14):
        pytest.skip("the standard library has it")

    def import_module(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(files, "import_module", import_module)

    with pytest.raises(MissingExtraError, match=r"pip install 'apf-middleware\[zstd\]'"):
        require_compression(tmp_path / "t.zst")
    require_compression(tmp_path / "t.gz")
