"""When elastic levels get fewer seats, and when they get them back."""

from itertools import pairwise

import pytest

from apf_middleware.adaptive import ElasticControl, ElasticReason
from apf_middleware.exceptions import InvalidValueError

MS = 10**6
SECOND = 10**9


class Server:
    """A server whose event loop is as late as ``lag`` says, with a busy elastic level."""

    def __init__(self) -> None:
        self.now = 0
        self.control = ElasticControl(2 * MS)
        self.control.adopt({"batch": (0, 40, 100)})
        self.changes: list[tuple[int, int | None]] = []
        self.used = 50

    @property
    def cap(self) -> int | None:
        return self.control.caps.get("batch")

    def run(self, duration: int, lag: int, *, gap: int = 100 * MS) -> None:
        end = self.now + duration
        while self.now < end:
            self.now += gap + lag
            used = self.used if self.cap is None else min(self.used, self.cap)
            for level in self.control.levels.values():
                level.note(used, 5, 0)
            if self.control.decide(self.now, gap, lag):
                self.changes.append((self.now, self.cap))


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_loop_in_time_cuts_nothing(server: Server) -> None:
    server.run(60 * SECOND, 2 * MS)

    assert (server.changes, dict(server.control.caps)) == ([], {})
    assert server.control.levels["batch"].reason is ElasticReason.OPEN


def test_a_late_loop_cuts_twice_a_second_down_to_one_seat(server: Server) -> None:
    server.run(10 * SECOND, 3 * MS)

    assert [cap for _, cap in server.changes] == [35, 24, 16, 11, 7, 4, 2, 1]
    times = [at for at, _ in server.changes]
    assert all(500 * MS <= after - before <= 800 * MS for before, after in pairwise(times))
    assert server.control.levels["batch"].reason is ElasticReason.FLOOR


def test_one_late_probe_is_no_reason(server: Server) -> None:
    for _ in range(20):
        server.run(MS, 80 * MS)
        server.run(5 * SECOND, 0)

    assert server.changes == []


@pytest.mark.parametrize("calm_s", [3, 4])
def test_the_second_late_probe_is_one(server: Server, calm_s: int) -> None:
    """Also if levels without caps could just have grown, as at 2 and 4 s."""
    server.run(calm_s * SECOND, 0)
    server.run(360 * MS, 80 * MS)

    assert server.changes == [(server.now, 35)]


@pytest.mark.parametrize(("late", "cuts"), [(2, 0), (3, 1)])
def test_the_target_is_a_99th_percentile(server: Server, late: int, cuts: int) -> None:
    """What is ready in one of these probes would have waited for longer than 2 ms in 11 of the last 2,500 ms."""
    server.run(3 * SECOND, 0, gap=10 * MS)
    for _ in range(late):
        server.run(MS, 3 * MS, gap=10 * MS)
        server.run(100 * MS, 0, gap=10 * MS)

    assert len(server.changes) == cuts


def test_what_was_late_before_a_cut_is_no_reason_for_another(server: Server) -> None:
    server.run(515 * MS, 3 * MS)
    server.run(1900 * MS, 0)

    assert [cap for _, cap in server.changes] == [35]


def test_what_was_late_before_growth_is_no_sign_that_it_was_too_much(server: Server) -> None:
    server.run(515 * MS, 3 * MS)
    server.run(1500 * MS, 0)
    server.run(MS, 80 * MS)
    while len(server.changes) < 2:
        server.run(MS, 0)
    server.run(600 * MS, 0)
    server.run(MS, 80 * MS)
    server.run(MS, 0)

    assert [cap for _, cap in server.changes] == [35, 39]


def test_seats_come_back_step_by_step(server: Server) -> None:
    server.run(10 * SECOND, 3 * MS)
    server.changes.clear()
    server.run(14 * SECOND, 0)

    assert [cap for _, cap in server.changes] == [5, 9, 13, 17, 21]
    assert server.control.levels["batch"].reason is ElasticReason.GREW
    server.run(60 * SECOND, 0)
    assert dict(server.control.caps) == {}


def test_growth_that_is_too_much_comes_later_each_time(server: Server) -> None:
    server.run(10 * SECOND, 3 * MS)
    waits = []
    for _ in range(6):
        begin, before = server.now, server.cap
        while server.cap == before:
            server.run(MS, 0)
        waits.append((server.now - begin) / SECOND)
        server.run(4 * SECOND, 3 * MS)

    # until the late probes are forgotten, and then 2, 4, 8 and 16 s
    assert waits == pytest.approx([4.3, 6.3, 10.3, 18.3, 18.3, 18.3], abs=0.3)


def test_growth_that_lasts_makes_the_next_come_sooner(server: Server) -> None:
    server.run(10 * SECOND, 3 * MS)
    for _ in range(3):
        server.run(20 * SECOND, 0)
        server.run(4 * SECOND, 3 * MS)
    begin, before = server.now, server.cap
    while server.cap == before:
        server.run(MS, 0)

    assert server.now - begin < 6 * SECOND


def test_after_a_rest_several_steps_are_made_up_for(server: Server) -> None:
    server.run(10 * SECOND, 3 * MS)
    server.now += 6 * SECOND
    server.run(2 * SECOND, 0)

    assert server.cap == 1 + 3 * 4


def test_after_a_rest_some_probes_come_before_seats(server: Server) -> None:
    server.run(10 * SECOND, 3 * MS)
    server.now += 3600 * SECOND
    server.run(400 * MS, 0)
    assert server.cap == 1

    server.run(MS, 0)
    assert dict(server.control.caps) == {}


def test_levels_that_stay_have_their_new_limits(server: Server) -> None:
    server.run(10 * SECOND, 3 * MS)
    server.control.adopt({"batch": (5, 40, 100)})
    assert server.cap == 5

    server.control.adopt({"batch": (0, 40, 4)})
    assert dict(server.control.caps) == {}


def test_levels_that_stay_keep_their_caps(server: Server) -> None:
    server.run(10 * SECOND, 3 * MS)
    server.control.adopt({"batch": (0, 40, 100), "report": (0, 10, 100)})
    assert dict(server.control.caps) == {"batch": 1}
    server.control.adopt({"report": (0, 10, 100)})

    assert dict(server.control.caps) == {}


def test_a_target_is_positive() -> None:
    with pytest.raises(InvalidValueError, match="target_ns"):
        ElasticControl(0)


def test_it_shows_itself(server: Server) -> None:
    assert repr(server.control) == "<ElasticControl: {'batch': <ElasticCap: none, open>}>"
