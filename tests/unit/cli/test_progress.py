"""The bar that shows how far a command has come."""

import pytest

from apf_middleware.cli.progress import show_progress


def test_on_a_terminal_the_bar_counts_the_requests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show_progress("a trial", 2.0) as show:
        show(1.0, 12_345)
    shown = capsys.readouterr()
    assert "a trial" in shown.err
    assert "12,345 requests" in shown.err
    assert not shown.out


def test_elsewhere_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with show_progress("a trial", 2.0) as show:
        show(1.0, 5)
    assert capsys.readouterr() == ("", "")
