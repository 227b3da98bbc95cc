"""Bounded samples."""

from random import Random

from apf_middleware.simulation.sample import Sample


def test_few_values_are_all_kept() -> None:
    sample, dice = Sample(), Random(1)
    for value in range(256):
        sample.add(value, dice)

    assert sample.values == list(range(256))
    assert repr(sample) == "<Sample: 256 of 256 values>"


def test_of_many_values_each_has_the_same_chance() -> None:
    sample, dice = Sample(), Random(1)
    for value in range(20_000):
        sample.add(value, dice)

    assert (len(sample.values), sample.added) == (256, 20_000)
    assert 8_000 < sum(sample.values) / 256 < 12_000
