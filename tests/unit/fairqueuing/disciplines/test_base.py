"""What all disciplines have in common."""

from typing import Any

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Discipline, EqualSerial
from apf_middleware.fairqueuing.disciplines.max_min_concurrent import MaxMinConcurrent
from apf_middleware.fairqueuing.disciplines.max_min_serial import MaxMinSerial
from tests.support.discipline_level import Level


def test_a_discipline_needs_a_guess() -> None:
    with pytest.raises(InvalidValueError, match="guess_ns is 0, but it must be at least 1"):
        EqualSerial(1, 0)
    with pytest.raises(InvalidValueError, match="concurrency is -1, but it must be at least 0"):
        EqualSerial(-1)


BOTH = pytest.mark.parametrize("discipline", [MaxMinSerial, MaxMinConcurrent])


@BOTH
def test_the_repr_and_meters_of_a_discipline(discipline: type[Discipline[Any]]) -> None:
    level = Level(discipline, seats=1, flows=2)
    level.arrive(0, 0)
    level.arrive(1, 1)
    assert discipline.__name__ in repr(level.queueset.discipline)
    assert level.queueset.snapshot().meters["limited_queues"] == 2
