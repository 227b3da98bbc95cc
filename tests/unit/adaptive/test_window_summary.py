"""The means of a window."""

from apf_middleware.adaptive.window_summary import WindowSummary


def summary(samples: int) -> WindowSummary:
    return WindowSummary(samples, 0.1, 0.5, 4.0, 4.0, 1.0, 0.0, 5, 4, 3, 2)


def test_the_error_of_the_level_falls_with_the_root_of_samples() -> None:
    assert summary(100).error == 0.05
    assert summary(0).error == 0


def test_all_ends_are_counted() -> None:
    assert summary(1).ended == 14
