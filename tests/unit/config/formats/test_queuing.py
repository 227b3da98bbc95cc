"""Queues of a level in apf/v1."""

import pytest

from apf_middleware.config import Queuing, load, load_text, read_source

QUEUING = """\
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: l}
spec:
  queuing: {%s}
"""


@pytest.mark.parametrize(
    ("text", "queuing"),
    [
        ("queues: exact", Queuing(64, 8, 50, exact=1024, backfill=2)),
        ("queues: exact, maxQueues: 10, backfill: 0", Queuing(64, 8, 50, exact=10, backfill=0)),
        ("queues: exact, sharedQueues: 4", Queuing(4, 4, 50, exact=1024, backfill=2)),
        ("queues: exact, sharedQueues: 4, handSize: 2", Queuing(4, 2, 50, exact=1024, backfill=2)),
        ("queues: 0, backfill: 7", Queuing(64, 8, 50, backfill=7)),
    ],
)
def test_the_queues_of_a_level(text: str, queuing: Queuing) -> None:
    assert load_text(QUEUING % text).levels["l"].queuing == queuing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("maxQueues: 7", "queuing.maxQueues is 7, but it must be absent unless queues are exact"),
        ("sharedQueues: 7", "queuing.sharedQueues is 7, but it must be absent unless queues are exact"),
        ("queues: exact, maxQueues: 0", "queuing.maxQueues is 0, but it must be from 1 to 5000000"),
        ("queues: exact, sharedQueues: 0", "queuing.sharedQueues is 0, but it must be from 1 to"),
        ("queues: exact, sharedQueues: 4, handSize: 5", "queuing.handSize is 5, but it must not exceed the 4 queues"),
        ("backfill: 101", "queuing.backfill is 101, but it must be from 0 to 100"),
        ("backfill: -1", "queuing.backfill is -1, but it must be from 0 to 100"),
    ],
)
def test_what_is_wrong_with_queues(text: str, message: str) -> None:
    problems = [str(problem) for problem in read_source(QUEUING % text, "a.yaml").problems]

    assert any(message in problem for problem in problems), problems


def test_a_flow_with_a_queue_of_its_own_may_have_wide_requests_as_if_its_hand_were_one() -> None:
    assert Queuing(64, 8, exact=10).hand == 1
    assert Queuing(64, 8).hand == 8


def test_kubernetes_manifests_keep_sharding_and_have_no_backfill() -> None:
    level = load(defaults="kubernetes").levels["workload-low"]

    assert level.queuing == Queuing(128, 6, 50, exact=0, backfill=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("queues: many", "queuing.queues is 'many', but it must be a whole number or 'exact'"),
        ("queues: true", "queuing.queues is true, but it must be a whole number or 'exact'"),
        ("queues: '9'", "it must be a whole number or 'exact'. Write it in decimal digits, without quotes"),
        ("queues: -1, handSize: 0", "queuing.queues is -1, but it must be from 1 to 10000000"),
    ],
)
def test_a_number_or_a_word_has_one_error(text: str, message: str) -> None:
    [error] = read_source(QUEUING % text).errors

    assert message in str(error)
