"""The live screen without a terminal: what is seen, what keys do."""

import pytest

from apf_middleware.cli.control.top import keys_in
from apf_middleware.cli.control.top_screen import Key, QueueCommand, TopScreen
from tests.support.worker_replies import queue, refuses, says, silent


@pytest.fixture
def board() -> TopScreen:
    made = TopScreen("shop")
    made.update([says("1", queue("web", used=5), queue("batch"), queue("slow", parent="batch"))], 100.0)
    return made


def text(board: TopScreen, width: int = 80, height: int | None = 24) -> list[str]:
    return [line.plain.rstrip() for line in board.lines(width, height)]


def reversed_line(board: TopScreen) -> str:
    [line] = [one for one in board.lines(80, 24)[2:] if any(span.style == "reverse" for span in one.spans)]
    return line.plain


def test_a_queue_is_one_line_with_seats_share_waiting_and_rejections_a_second(board: TopScreen) -> None:
    rejected = {"time-out": 4, "queue-full": 30}
    board.update([says("1", queue("web", used=5, rejected=rejected, inqueue=7, pending=2, state="Paused"))], 102.0)

    title, head, web, *_ = text(board)
    assert title == "apf top: shop, 1 worker"
    assert head.split() == ["NAME", "STATE", "SEATS", "USED/MAX", "DESERVED", "SHARE", "WAITING", "REJ/s"]
    assert web.split() == ["web", "Paused", "█████·····", "5/10", "2.5", "2.00", "9", "15.0"]


def test_before_the_second_look_nobody_knows_how_many_are_rejected_a_second(board: TopScreen) -> None:
    assert text(board)[2].split()[-1] == "-"
    board.update([says("1", queue("web"))], 101.0)
    assert text(board)[2].split()[-1] == "0.0"
    board.update([says("1", queue("web", rejected={}))], 102.0)
    assert text(board)[2].split()[-1] == "0.0", "a worker that ended takes nothing back"


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("height", [6, 10, 24])
def test_it_fits_whatever_the_terminal(board: TopScreen, width: int, height: int) -> None:
    board.update([says("1", *[queue(f"{'tenant' * 10}-{number}") for number in range(50)]), silent("2")], 101.0)
    lines = board.lines(width, height)

    assert len(lines) <= height
    assert max(line.cell_len for line in lines) <= width
    for _ in range(60):
        assert board.press(Key.DOWN) is None
    assert "tenant" in reversed_line(board), "the one that is selected is always seen"
    assert board.selected.endswith("-49")


def test_arrows_and_letters_select(board: TopScreen) -> None:
    assert board.selected == "web"
    for key, selected in (
        (Key.DOWN, "batch"),
        ("j", "slow"),
        ("j", "slow"),
        ("k", "batch"),
        (Key.UP, "web"),
        ("k", "web"),
    ):
        board.press(key)
        assert board.selected == selected
    assert reversed_line(board).startswith("web")


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ("py", QueueCommand("web", "pause", {})),
        ("oy", QueueCommand("web", "open", {})),
        ("cd", QueueCommand("web", "close", {"mode": "drain"})),
        ("cs", QueueCommand("web", "close", {"mode": "shed"})),
        ("jcs", QueueCommand("batch", "close", {"mode": "shed"})),
        ("pn", None),
        ("cq", None),
        ("cy", None),
        ("p\n", None),
        ("x", None),
        ("y", None),
    ],
)
def test_nothing_is_changed_unless_it_is_confirmed(board: TopScreen, keys: str, order: QueueCommand | None) -> None:
    orders = [board.press(key) for key in keys]

    assert orders[:-1] == [None] * (len(keys) - 1)
    assert orders[-1] == order
    assert not board.is_over, "q answers a question with no"


def test_what_is_confirmed_is_what_was_asked_though_the_queues_change_meanwhile(board: TopScreen) -> None:
    board.press("c")
    assert text(board)[-1] == "close web? d drain, s shed waiting requests, any other key no"
    board.update([says("1", queue("batch"))], 101.0)

    assert board.press("d") == QueueCommand("web", "close", {"mode": "drain"})
    assert board.selected == "batch"


def test_escape_says_no_and_q_quits(board: TopScreen) -> None:
    board.press("c")
    assert board.press(Key.ESCAPE) is None
    assert board.message == "close web: no"
    assert board.press("d") is None
    board.press("q")
    assert board.is_over


def test_what_became_of_an_order_is_told(board: TopScreen) -> None:
    order = QueueCommand("web", "close", {})
    board.finish(
        order, [says("1", queue("web")), refuses("2", 409, "it has a parent"), refuses("3", 409, "it has a parent")]
    )

    assert text(board)[-2] == "close web: done by 1 of 3 workers; it has a parent"


def test_workers_that_do_not_answer_or_are_otherwise_are_named(board: TopScreen) -> None:
    board.update([says("1", queue("web")), says("2", queue("web", state="Closed")), silent("3", "no time")], 101.0)

    assert text(board)[2].split()[1] == "Mixed"
    assert text(board)[-2] == "worker 3: no time; web: worker 1 has it Open, worker 2 has it Closed"
    board.update([silent("1")], 102.0)
    assert text(board)[2].split()[0] == "web", "what was known stays to be seen"
    board.update([], 103.0)
    assert text(board)[-2] == "no worker has a socket there any more"


def test_children_stand_below_their_parent_a_little_in(board: TopScreen) -> None:
    assert [line.split()[0] for line in text(board)[2:5]] == ["web", "batch", "slow"]
    assert text(board)[4].startswith("  slow")


def test_without_keys_there_is_a_table_and_nothing_is_selected(board: TopScreen) -> None:
    lines = board.lines(80, keys=False)

    assert len(lines) == 5
    assert not any(span.style == "reverse" for line in lines for span in line.spans)


def test_keys_are_understood_as_terminals_send_them() -> None:
    assert list(keys_in("pj\x1b[A\x1bOBq")) == ["p", "j", Key.UP, Key.DOWN, "q"]
    assert list(keys_in("\x1b")) == [Key.ESCAPE]
    assert list(keys_in("\x1b[15~cs")) == [Key.ESCAPE], "no part of an unknown key is taken for an order"
