"""Results of the simulator as curves."""

import pytest

from apf_middleware.cli.curves import print_curves
from tests.support.simulated_worlds import POISSON, play


def test_each_curve_has_the_name_of_its_tenant_or_level(capsys: pytest.CaptureFixture[str]) -> None:
    print_curves(play("  duration: 2s\n", POISSON))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("p99, up to ")
    assert any(line.startswith("t  ") for line in lines)
    assert any(line.startswith("seats in use, up to ") for line in lines)
    assert not any(line.startswith("turned away") for line in lines), "no request was rejected"
