"""Queues and gates as tables."""

from apf_middleware.cli.control.merging import merge_gates, merge_queues
from apf_middleware.cli.control.rendering import gate_table, queue_table
from tests.support.worker_replies import TWO_WORKERS, queue, says

QUEUES = merge_queues(
    [
        says(
            "1",
            queue("web", deserved=32.0, used=34, max=100, completed=81223, share=1.06),
            queue("batch", parent="internal", deserved=4.25, used=6, rejected={"queue-full": 220}),
        )
    ]
)


def test_a_table_has_the_columns_of_named_queues() -> None:
    head, web, batch = (" ".join(line.split()) for line in queue_table(QUEUES))

    assert head == (
        "NAME PARENT STATE WEIGHT MIN DESERVED USED MAX INQUEUE PENDING RUNNING COMPLETED FAILED ABORTED REJECTED SHARE"
    )
    assert web == "web root Open 1 0 32 34 100 3 0 1 81223 1 2 4 1.06"
    assert batch == "batch internal Open 1 0 4.25 6 10 3 0 1 100 1 2 220 1.41"


def test_numbers_are_aligned_to_the_right() -> None:
    head, web, _ = queue_table(QUEUES)

    assert head.index("SHARE") + len("SHARE") == web.index("1.06") + len("1.06")


def test_a_wide_table_has_more_columns_in_any_terminal() -> None:
    head, web, _ = queue_table(QUEUES, width=80, wide=True)

    assert head.split()[-6:] == ["CAPACITY", "PRIORITY", "RECLAIMABLE", "STRATEGY", "SOURCE", "WORKERS"]
    assert web.split()[-6:] == ["8", "0", "yes", "traverse", "file", "1"]


def test_a_table_in_80_columns_keeps_the_important_columns() -> None:
    lines = queue_table(QUEUES, width=80)

    assert max(map(len, lines)) <= 80
    assert {"NAME", "STATE", "USED", "MAX", "INQUEUE", "REJECTED"} <= set(lines[0].split())
    assert "PARENT" not in lines[0]
    assert queue_table(QUEUES, width=200) == queue_table(QUEUES)


def test_names_are_escaped_and_shortened() -> None:
    [found] = merge_queues([says("1", queue("a\x1b[2J\n" + "b" * 300))])

    assert [line for line in queue_table([found]) if not line.isprintable()] == []
    assert max(len(line) for line in queue_table([found], width=80)) <= 80


def test_parked_requests_of_a_key_are_added_up() -> None:
    assert [" ".join(line.split()) for line in gate_table(merge_gates(TWO_WORKERS))] == [
        "GATE KEY STATE PARKED OLDEST ACQUIRED/LIMIT EVENTS RESCUES",
        "db shard-3 blocking 17 2.1s 2/10 20 0",
        "db shard-4 passing 1 1.0s 1/5 10 0",
        "quota - passing 0 - 1/5 20 0",
    ]
