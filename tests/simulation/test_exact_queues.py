"""A queue for each flow: elephants cost mice nothing but their own turns, however many elephants there are."""

import pytest

from benchmarks.elephants import SETTINGS, mice_latencies


def p99(queues: str, elephants: int, discipline: str = "equal-serial") -> float:
    latencies = mice_latencies(SETTINGS[queues], elephants, discipline, seconds=12)
    return latencies[len(latencies) * 99 // 100]


@pytest.mark.parametrize("discipline", ["equal-serial", "max-min-serial"])
def test_three_elephants_delay_mice_no_more_than_one(discipline: str) -> None:
    alone = p99("exact", 1, discipline)

    assert p99("exact", 3, discipline) <= 1.1 * alone
    assert p99("exact", 5, discipline) <= 40


def test_with_sharding_an_elephant_gets_a_share_for_each_queue_of_its_hand() -> None:
    assert p99("64 queues, hand of 6", 3) > 2 * p99("64 queues, hand of 6", 1)
