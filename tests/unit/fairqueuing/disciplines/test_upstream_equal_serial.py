"""Kubernetes' discipline: the meters that it shows."""

from apf_middleware.fairqueuing import (
    EqualSerial,
    QueueSet,
    QueueSetSettings,
    UpstreamEqualSerial,
    Work,
)
from apf_middleware.fairqueuing.disciplines.upstream_equal_serial import HIGH_R, R_DECREMENT
from tests.support.tickets import ONE_QUEUE, ticket


def test_the_default_is_exchanged_for_that_of_kubernetes_with_strict_upstream() -> None:
    assert isinstance(QueueSet(QueueSetSettings(1)).discipline, EqualSerial)
    strict = QueueSet(QueueSetSettings(1), strict_upstream=True)
    assert not isinstance(strict.discipline, EqualSerial)
    assert (strict.discipline.name, strict.guarantee) == ("equal-serial", None)


def test_a_snapshot_shows_the_meters_of_kubernetes_with_strict_upstream() -> None:
    queueset = QueueSet(ONE_QUEUE, strict_upstream=True)
    for now in range(3):
        queueset.arrive(now, ticket(0, Work(1)))

    picture = queueset.snapshot()

    assert picture.queues[0].next_dispatch_r == 300_000
    assert picture.meters["active_queues"] == 1
    assert picture.meters["latest_s"] == picture.meters["dispatch_r"] == 0


def test_epochs_keep_the_meters_within_64_bits_as_upstream_shows_them() -> None:
    discipline = UpstreamEqualSerial(1, initial_r=HIGH_R - 1)
    queueset = QueueSet(ONE_QUEUE, discipline=lambda _concurrency, _guess_ns: discipline)
    queueset.arrive(0, ticket())
    assert discipline.current_r == HIGH_R - 1

    queueset.tick(100)

    assert discipline.epochs == 1
    assert discipline.current_r == HIGH_R - 1 + 10 - R_DECREMENT
    assert discipline.r == HIGH_R - 1 + 10
