"""Plots of results."""

import json
import struct
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.command_line import invoke as apf
from tests.support.simulated_worlds import SCENARIO


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


def test_plots_are_drawn(scenario: Path, tmp_path: Path) -> None:
    assert apf("simulate", scenario, "--plot", tmp_path / "p.png", "--compare", "none", "own").exit_code == 0
    assert apf("simulate", scenario, "--plot", tmp_path / "p.svg").exit_code == 0

    width, height = struct.unpack(">II", (tmp_path / "p.png").read_bytes()[16:24])
    assert (width, height) == (1375, 1100)
    drawn = ET.parse(tmp_path / "p.svg").getroot()  # noqa: S314 - our own file
    assert sum(1 for _ in drawn.iter("{http://www.w3.org/2000/svg}path")) > 30

    result = apf("simulate", scenario, "--plot", tmp_path / "p.txt")
    assert result.exit_code == 2
    assert "its name must end with .png, .svg, .pdf" in result.stderr


def test_names_in_plots_are_not_markup(tmp_path: Path) -> None:
    trace, drawn = tmp_path / "t.jsonl", tmp_path / "p.svg"
    names = ["$\\frac{$", "_hidden", "a & b"]
    trace.write_text(
        "".join(json.dumps({"time": n, "duration": 0.1, "user": name}) + "\n" for n, name in enumerate(names))
    )

    assert apf("simulate", "--trace", trace, "--plot", drawn).exit_code == 0
    legend = drawn.read_text()
    assert [f"<!-- {name} -->" in legend for name in ("$\\frac{$", " _hidden", "a &amp; b")] == [True, True, True]


def test_without_matplotlib_it_is_reported_how_to_get_it(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    result = apf("simulate", scenario, "--plot", tmp_path / "p.png")

    assert result.exit_code == 2
    assert "pip install 'apf-middleware[plots]'" in result.stderr
