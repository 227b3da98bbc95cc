"""The command ``apf`` before its arguments are parsed."""

import subprocess
import sys
from pathlib import Path

import pytest

from apf_middleware.cli import main


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_the_command_says_how_to_get_it(package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from apf_middleware.cli import main; main()"

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert result.returncode == 1
    assert "pip install 'apf-middleware[cli]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_argument_that_is_not_utf8_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["apf", "check", "a\udcff"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert capsys.readouterr().err == "apf: argument 2 is a\\udcff, but it must be UTF-8\n"


def test_a_file_whose_name_is_not_utf8_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\udcff.yaml"
    path.write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 0}\n")
    monkeypatch.setattr("sys.argv", ["apf", "check", str(path)])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 1
    assert "spec.seats is 0" in capsys.readouterr().out
