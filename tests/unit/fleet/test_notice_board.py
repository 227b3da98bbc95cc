"""All members keep the same notices, in whatever order they learn of them."""

from random import Random

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.notice_board import LONGEST_VALUE, MOST_NOTICES, Board, Notice


def test_a_notice_replaces_the_earlier_one_of_its_key() -> None:
    board = Board()
    board.post("a", "queue:x", "closed")
    board.post("a", "queue:y", "paused")
    board.post("b", "queue:x", "open")

    assert board.notices == {"queue:x": Notice(3, "b", "open"), "queue:y": Notice(2, "a", "paused")}


def test_only_news_is_taken() -> None:
    one, two = Board(), Board()
    one.post("a", "x", "1")
    two.merge(one.notices)
    two.post("b", "x", "2")

    assert one.merge(two.notices) == {"x": "2"}
    assert one.merge(two.notices) == {}
    assert two.merge({"x": Notice(1, "z", "old")}) == {}
    assert one.digest == two.digest


def test_an_empty_board_has_the_empty_digest() -> None:
    assert Board().digest == ""
    assert repr(Board()) == "<Board with 0 notices>"


def test_boards_that_exchange_notices_become_equal() -> None:
    for seed in range(200):
        random = Random(seed)
        boards = [Board() for _ in range(4)]
        for number in range(30):
            place = random.randrange(4)
            if random.random() < 0.5:
                boards[place].post(f"m{place}", random.choice("abc"), str(number))
            else:
                boards[place].merge(random.choice(boards).notices)
        random.shuffle(boards)
        for _ in range(2):
            for one in boards:
                for other in boards:
                    one.merge(other.notices)
        assert len({board.digest for board in boards}) == 1
        assert all(board.notices == boards[0].notices for board in boards)


def test_boards_are_bounded() -> None:
    board = Board()
    with pytest.raises(InvalidValueError, match="length of a notice"):
        board.post("a", "x", "." * (LONGEST_VALUE + 1))
    assert board.merge({str(number): Notice(1, "a", "") for number in range(MOST_NOTICES + 1)}) == {}
    board.notices.update({str(number): Notice(1, "a", "") for number in range(MOST_NOTICES)})
    board.post("a", "1", "again")
    with pytest.raises(InvalidValueError, match="number of notices"):
        board.post("a", "x", "")
