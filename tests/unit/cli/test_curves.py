"""Results of the simulator as curves."""

import pytest

from apf_middleware.cli import curves
from apf_middleware.cli.curves import print_curves
from tests.support.simulated_worlds import POISSON, play


def test_each_curve_has_the_name_of_its_tenant_or_level(capsys: pytest.CaptureFixture[str]) -> None:
    print_curves(play("  duration: 2s\n", POISSON))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("p99, up to ")
    assert any(line.startswith("t  ") for line in lines)
    assert any(line.startswith("seats in use, up to ") for line in lines)
    assert not any(line.startswith("turned away") for line in lines), "no request was rejected"


@pytest.mark.parametrize(("columns", "width"), [(None, 83), (200, 83), (80, 80), (60, 60), (20, 33)])
def test_curves_fit_into_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int | None, width: int
) -> None:
    monkeypatch.setattr(curves, "terminal_width", lambda: columns)

    print_curves(play("  duration: 2s\n", POISSON))

    assert max(map(len, capsys.readouterr().out.splitlines())) == width
