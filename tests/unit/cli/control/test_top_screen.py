"""The live screen without a terminal: what is seen, what keys do."""

import pytest

from apf_middleware.asgi.admin.documents import AdaptiveSeatsDocument, NamedQueueList
from apf_middleware.cli.control.top_screen import Key, QueueCommand, TopScreen
from apf_middleware.cli.control.workers import Reply
from apf_middleware.snapshots.fleet import FleetMemberSnapshot
from tests.support.worker_replies import WORKER, queue, refuses, says, silent


@pytest.fixture
def screen() -> TopScreen:
    made = TopScreen("shop")
    made.update([says("1", queue("web", used=5), queue("batch"), queue("slow", parent="batch"))], 100.0)
    return made


def text(screen: TopScreen, width: int = 80, height: int | None = 24) -> list[str]:
    return [line.plain.rstrip() for line in screen.lines(width, height)]


def reversed_line(screen: TopScreen) -> str:
    [line] = [one for one in screen.lines(80, 24)[2:] if any(span.style == "reverse" for span in one.spans)]
    return line.plain


def test_a_queue_is_one_line_with_seats_share_waiting_and_rejections_a_second(screen: TopScreen) -> None:
    rejected = {"time-out": 4, "queue-full": 30}
    screen.update([says("1", queue("web", used=5, rejected=rejected, inqueue=7, pending=2, state="Paused"))], 102.0)

    title, head, web, *_ = text(screen)
    assert title == "apf top: shop, 1 worker"
    assert head.split() == ["NAME", "STATE", "SEATS", "USED/MAX", "DESERVED", "SHARE", "WAITING", "REJ/s"]
    assert web.split() == ["web", "Paused", "█████·····", "5/10", "2.5", "2.00", "9", "15.0"]


def test_adaptive_seats_of_all_workers_are_in_the_title_with_their_course() -> None:
    def says_seats(worker: str, seats: int, reason: str) -> Reply[NamedQueueList]:
        adaptive = AdaptiveSeatsDocument(seats, 5, 400, reason)
        return Reply(worker, 200, NamedQueueList(WORKER, (queue("web"),), adaptive=adaptive))

    screen = TopScreen("shop")
    for number in range(1, 9):
        screen.update([says_seats("1", number, "grew"), says_seats("2", 3 * number, "held-unused")], 100.0 + number)
    title, *_ = text(screen)
    assert title == "apf top: shop, 2 workers, 32 seats (10 to 800; grew, held-unused) ⣀⣤⣶⣿"

    screen.update([says("1", queue("web"))], 110.0)
    assert text(screen)[0] == "apf top: shop, 1 worker"


def test_the_adaptive_seats_of_a_fleet_count_once() -> None:
    def says_seats(worker: str, seats: int) -> Reply[NamedQueueList]:
        adaptive = AdaptiveSeatsDocument(seats, 5, 400, "grew", shared=True)
        return Reply(worker, 200, NamedQueueList(WORKER, (queue("web"),), adaptive=adaptive))

    screen = TopScreen("shop")
    for number in (8, 16):
        screen.update([says_seats("1", number), says_seats("2", number - 1)], 100.0 + number)
    assert text(screen)[0] == "apf top: shop, 2 workers, 16 seats (5 to 400; grew) ⣼"


def test_rejections_a_second_are_unknown_before_the_second_update(screen: TopScreen) -> None:
    assert text(screen)[2].split()[-1] == "-"
    screen.update([says("1", queue("web"))], 101.0)
    assert text(screen)[2].split()[-1] == "0.0"
    screen.update([says("1", queue("web", rejected={}))], 102.0)
    assert text(screen)[2].split()[-1] == "0.0", "a worker that ended takes nothing back"


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("height", [6, 10, 24])
def test_the_screen_fits_into_any_terminal(screen: TopScreen, width: int, height: int) -> None:
    screen.update([says("1", *[queue(f"{'tenant' * 10}-{number}") for number in range(50)]), silent("2")], 101.0)
    lines = screen.lines(width, height)

    assert len(lines) <= height
    assert max(line.cell_len for line in lines) <= width
    for _ in range(60):
        assert screen.press(Key.DOWN) is None
    assert "tenant" in reversed_line(screen), "the one that is selected is always seen"
    assert screen.selected.endswith("-49")


def member(name: str, demand: int, *, is_allocator: bool = False, is_outdated: bool = False) -> FleetMemberSnapshot:
    return FleetMemberSnapshot(name, is_allocator, 4, 3, demand, 0.25, is_outdated)


def test_the_members_of_the_fleet_are_listed_by_their_demand(screen: TopScreen) -> None:
    members = [member("one", 2, is_allocator=True), member("two", 9), member("old", 0, is_outdated=True)]
    screen.update([says("1", queue("web"))], 101.0, members)

    _, _, _, empty, head, *rows = text(screen)[:8]
    assert (empty, head.split()) == ("", ["MEMBER", "GRANTED", "IN", "USE", "DEMAND", "REPORT", "ROLE"])
    assert [row.split() for row in rows] == [
        ["two", "4", "3", "9", "0.25s"],
        ["one", "4", "3", "2", "0.25s", "allocator"],
        ["old", "4", "3", "0", "0.25s", "outdated"],
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("height", [6, 10, 12, 24, 100])
def test_many_members_leave_room_for_the_queues(screen: TopScreen, width: int, height: int) -> None:
    members = [member(f"host-{number}", number) for number in range(30)]
    screen.update([says("1", *[queue(f"tenant-{number}") for number in range(50)])], 101.0, members)
    lines = screen.lines(width, height)

    assert len(lines) <= height
    assert max(line.cell_len for line in lines) <= width
    shown = sum("host-" in line.plain for line in lines)
    assert shown == max(0, min(10, height - 11))
    assert any(f"and {30 - shown} others" in line.plain for line in lines) == (shown > 0)


def test_arrows_and_letters_select(screen: TopScreen) -> None:
    assert screen.selected == "web"
    for key, selected in (
        (Key.DOWN, "batch"),
        ("j", "slow"),
        ("j", "slow"),
        ("k", "batch"),
        (Key.UP, "web"),
        ("k", "web"),
    ):
        screen.press(key)
        assert screen.selected == selected
    assert reversed_line(screen).startswith("web")


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
def test_commands_need_a_confirmation(screen: TopScreen, keys: str, order: QueueCommand | None) -> None:
    orders = [screen.press(key) for key in keys]

    assert orders[:-1] == [None] * (len(keys) - 1)
    assert orders[-1] == order
    assert not screen.is_over, "q answers a question with no"


def test_a_confirmation_is_for_the_queue_of_the_question(screen: TopScreen) -> None:
    screen.press("c")
    assert text(screen)[-1] == "close web? d drain, s shed waiting requests, any other key no"
    screen.update([says("1", queue("batch"))], 101.0)

    assert screen.press("d") == QueueCommand("web", "close", {"mode": "drain"})
    assert screen.selected == "batch"


def test_escape_cancels_and_q_quits(screen: TopScreen) -> None:
    screen.press("c")
    assert screen.press(Key.ESCAPE) is None
    assert screen.message == "close web: no"
    assert screen.press("d") is None
    screen.press("q")
    assert screen.is_over


def test_the_outcome_of_a_command_is_shown(screen: TopScreen) -> None:
    order = QueueCommand("web", "close", {})
    screen.finish(
        order, [says("1", queue("web")), refuses("2", 409, "it has a parent"), refuses("3", 409, "it has a parent")]
    )

    assert text(screen)[-2] == "close web: done by 1 of 3 workers; it has a parent"


def test_silent_and_differing_workers_are_named(screen: TopScreen) -> None:
    screen.update([says("1", queue("web")), says("2", queue("web", state="Closed")), silent("3", "no time")], 101.0)

    assert text(screen)[2].split()[1] == "Mixed"
    assert text(screen)[-2] == "worker 3: no time; web is Open in worker 1, Closed in worker 2"
    screen.update([silent("1")], 102.0)
    assert text(screen)[2].split()[0] == "web", "what was known stays to be seen"
    screen.update([], 103.0)
    assert text(screen)[-2] == "no worker has a socket in the directory any more"


def test_children_are_indented_below_their_parent(screen: TopScreen) -> None:
    assert [line.split()[0] for line in text(screen)[2:5]] == ["web", "batch", "slow"]
    assert text(screen)[4].startswith("  slow")


def test_without_keys_there_is_a_table_and_nothing_is_selected(screen: TopScreen) -> None:
    lines = screen.lines(80, keys=False)

    assert len(lines) == 5
    assert not any(span.style == "reverse" for line in lines for span in line.spans)
