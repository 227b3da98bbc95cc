"""Senders are looked at from time to time, and release their seats if one message waits for too long."""

from apf_middleware.runtime.blocked_sends import BlockedSends
from tests.support.virtual_alarm import VirtualAlarm

MS = 1_000_000


class Fake:
    """A sender of which one message has been waiting since ``since``."""

    def __init__(self, since: int | None = None) -> None:
        self.since = since
        self.releases = 0

    def is_blocked(self, now: int, limit_ns: int) -> bool:
        return self.since is not None and now - self.since >= limit_ns

    def release(self) -> None:
        self.releases += 1


class House:
    def __init__(self, limit_ns: int) -> None:
        self.timer = VirtualAlarm()
        self.sends = BlockedSends(limit_ns, lambda: self.timer.now, self.timer.make)

    def add(self, *senders: Fake) -> None:
        for one in senders:
            self.sends.senders[one] = one
            if self.timer.now >= self.sends.look_at:
                self.sends.plan(self.timer.now)


def test_a_blocked_sender_is_released_within_a_quarter_of_the_limit() -> None:
    house, blocked, reading = House(400 * MS), Fake(since=30 * MS), Fake()
    house.add(blocked, reading)

    house.timer.run(430 * MS)
    assert blocked.releases == 0
    house.timer.run(500 * MS)
    assert (blocked.releases, reading.releases) == (1, 0)


def test_pauses_between_looks_are_never_too_short_or_too_long() -> None:
    for limit_ns, looks in ((1, 200), (MS, 200), (400 * MS, 10), (3600 * 1000 * MS, 4)):
        house = House(limit_ns)
        house.add(Fake())
        house.timer.run(1000 * MS)
        assert house.timer.rings == looks


def test_senders_of_an_earlier_limit_are_looked_at_seldom() -> None:
    house = House(20 * MS)
    house.add(Fake())
    house.sends.set_limit(0)
    house.timer.run(1010 * MS)
    assert house.timer.rings <= 5


def test_time_in_which_the_event_loop_stands_still_does_not_count() -> None:
    house, blocked = House(400 * MS), Fake(since=0)
    house.add(blocked)
    house.timer.run(100 * MS)
    house.timer.ring(late=500 * MS)
    assert blocked.releases == 0
    house.timer.run(house.timer.now + 300 * MS)
    assert blocked.releases > 0


def test_there_is_no_timer_without_senders() -> None:
    house, sender = House(400 * MS), Fake()
    house.add(sender)
    del house.sends.senders[sender]
    house.timer.run(1000 * MS)

    assert (house.timer.at, house.timer.rings) == (None, 1)
    house.add(sender)
    assert house.timer.at == 1100 * MS


def test_a_timer_whose_loop_has_ended_is_set_anew() -> None:
    house, forgotten, blocked = House(400 * MS), Fake(), Fake(since=5000 * MS)
    house.add(forgotten)
    house.timer.at = None
    house.timer.now = 5000 * MS
    house.add(blocked)
    house.timer.run(5500 * MS)

    assert blocked.releases >= 1


def test_another_limit_holds_for_those_that_send_now() -> None:
    house, blocked = House(400 * MS), Fake(since=0)
    house.add(blocked)
    house.sends.set_limit(0)
    house.timer.run(1000 * MS)
    assert blocked.releases == 0
    house.sends.set_limit(100 * MS)
    house.timer.run(1200 * MS)
    assert blocked.releases > 0
