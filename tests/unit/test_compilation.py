"""What compiled modules need changes nothing in the pure build."""

from fractions import Fraction

from apf_middleware.compilation import mypyc_attr, quotient


def test_a_hint_returns_the_class_that_it_decorates() -> None:
    class Plain:
        pass

    assert mypyc_attr(allow_interpreted_subclasses=True)(Plain) is Plain


def test_a_quotient_is_rounded_once() -> None:
    numerator, denominator = 2**60 - 1, 31_625_638_753_468_389

    assert quotient(numerator, denominator) == float(Fraction(numerator, denominator))
    assert quotient(numerator, denominator) != float(numerator) / float(denominator)
