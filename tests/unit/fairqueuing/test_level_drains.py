"""The queues of a level where requests wait: their weights, and a typical duration."""

from apf_middleware.fairqueuing.level_drains import LevelDrains
from apf_middleware.fairqueuing.ticket import Queue


def test_a_level_sums_up_the_weights_of_its_queues() -> None:
    queue = Queue(0)
    level = LevelDrains()
    drain = level.open(0, queue)

    assert level.open(5, queue) is drain
    assert level.weights == queue.weight
    assert repr(level) == "<LevelDrains of 1 queues>"
    level.close(queue)
    assert level.weights == 0


def test_a_level_learns_a_typical_duration() -> None:
    level = LevelDrains()
    level.learn(64)
    assert level.typical_ns == 64

    level.learn(128)
    assert level.typical_ns == 66
