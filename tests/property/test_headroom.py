"""Headroom at any time: short requests always pass, and long ones have their part of the seats, and all when alone."""

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from apf_middleware.fairqueuing.headroom import Headroom
from tests.support.examples import examples

MS = 10**6
SECOND = 10**9

_pauses = st.sampled_from((0, MS, 10 * MS, 400 * MS, SECOND, 5 * SECOND, 100 * SECOND))
_limits = st.sampled_from((1, 2, 3, 10, 57))
_steps = st.lists(
    st.tuples(st.sampled_from(("short", "long", "wide", "end", "limit")), _pauses, _limits, st.integers(0, 10)),
    max_size=80,
)


@dataclass
class World:
    headroom: Headroom
    limit: int = 10
    now: int = 0
    short_at: int | None = None
    shorts: int = 0
    running: list[int] = field(default_factory=list)  # widths of long requests

    def ask(self, width: int) -> None:
        used, limit = sum(self.running), self.limit
        assert self.headroom.used == used
        kept = self.headroom.kept(self.now, limit)
        # rounded up, as long as a seat is left
        assert 0 <= kept <= min(limit * self.headroom.percent / 100 + 1, limit - 1)
        most_ns = min(max(self.headroom.typical_ns, SECOND), 10 * SECOND)
        assert 0 <= self.headroom.kept_for_ns <= most_ns
        if self.short_at is None or self.now - self.short_at > most_ns:
            assert kept == 0
        elif self.now - self.short_at <= self.headroom.kept_for_ns and limit > 1:
            assert kept >= 1
        elif self.shorts <= 20:  # the gaps aren't known yet
            assert kept >= 1 or limit == 1
        else:
            assert kept == 0
        if self.headroom.admits(self.now, width, limit):
            assert not used or used + width <= limit - kept
            self.headroom.take(width)
            self.running.append(width)
        else:
            # work-conserving: only what is kept, or what isn't there, is refused
            assert used
            assert used + width > limit - kept
            assert used + width > limit * (1 - self.headroom.percent / 100) - 1


@examples(200)
@given(_steps, st.integers(1, 90), st.sampled_from((0, 0, 30)))
def test_long_requests_have_their_part(steps: list[tuple[str, int, int, int]], percent: int, before: int) -> None:
    world = World(Headroom(percent))
    for kind, pause, number, which in [("short", 10 * MS, 0, 0)] * before + steps:
        world.now += pause
        if kind == "short":
            world.headroom.note_short(world.now)
            world.headroom.observe(5 * MS, 1)
            world.short_at = world.now
            world.shorts += 1
        elif kind == "limit":
            world.limit = number
        elif kind == "end" and world.running:
            width = world.running.pop(which % len(world.running))
            world.headroom.observe(500 * MS, width)
            world.headroom.give_back(width)
        elif kind != "end":
            world.ask(1 if kind == "long" else number)


@examples(200)
@given(st.lists(st.tuples(st.integers(1, 10**12), st.integers(1, 50)), min_size=20, max_size=60))
def test_the_typical_duration_is_among_the_durations_and_never_short(durations: list[tuple[int, int]]) -> None:
    headroom = Headroom(20)
    for duration, width in durations:
        headroom.observe(duration, width)

    assert min(duration for duration, _ in durations) * 0.999 - 1 <= headroom.typical_ns
    assert headroom.typical_ns <= max(duration for duration, _ in durations) * 1.001
    assert not headroom.is_short(headroom.typical_ns)


@examples(100)
@given(st.integers(1, 30 * SECOND), st.integers(1, 60 * SECOND), st.integers(1, 20))
@example(1_617_423_307, 1_617_423_307, 1)  # the mean of equal durations is a little less than they are
def test_requests_that_come_as_regularly_find_their_seats(gap: int, typical: int, together: int) -> None:
    """Unless their gaps are longer than the longest time for which seats are kept."""
    headroom = Headroom(20)
    for _ in range(20):
        headroom.observe(typical, 1)
    now, most_ns = 0, min(max(typical, SECOND), 10 * SECOND)
    for _ in range(60):
        for _ in range(together):
            headroom.note_short(now)
        assert (headroom.kept(now + gap, 10) > 0) is (gap <= most_ns)
        now += gap
