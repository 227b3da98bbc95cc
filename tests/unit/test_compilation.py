"""Hints for the compiled build change nothing in the pure one."""

from apf_middleware.compilation import mypyc_attr


def test_a_hint_returns_the_class_that_it_decorates() -> None:
    class Plain:
        pass

    assert mypyc_attr(allow_interpreted_subclasses=True)(Plain) is Plain
