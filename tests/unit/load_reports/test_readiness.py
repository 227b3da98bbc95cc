"""A server that rejects for some time isn't ready, until it has rejected nothing for some time."""

import pytest

from apf_middleware.load_reports.readiness import Readiness

SECOND = 10**9


class Probe:
    """Looks at the counts once a second."""

    def __init__(self, every: int = 1) -> None:
        self.readiness = Readiness(["web", "api"], 2 * SECOND, 5 * SECOND)
        self.every = every
        self.now = 0
        self.counts = {"web": 7, "api": 0, "batch": 0}
        self.look()

    def look(self) -> list[str]:
        return sorted(self.readiness.look(self.now, self.counts))

    def after(self, looks: int, **more: int) -> list[str]:
        """Look again so many times, before each of which the counts have grown by ``more``."""
        found = []
        for _ in range(looks):
            self.now += self.every * SECOND
            for level, number in more.items():
                self.counts[level] += number
            found = self.look()
        return found


def test_what_was_rejected_before_the_first_look_does_not_count() -> None:
    assert Probe().after(10) == []


def test_rejections_must_last() -> None:
    probe = Probe()
    assert probe.after(2, web=1) == []
    assert probe.after(1, web=1) == ["web"]
    assert probe.after(1, web=1, api=1) == ["web"]
    assert probe.after(2, web=1, api=1) == ["api", "web"]


def test_rejections_of_other_levels_do_not_matter() -> None:
    assert Probe().after(20, batch=5) == []


def test_the_server_is_ready_when_nothing_has_been_rejected_for_a_while() -> None:
    probe = Probe()
    probe.after(5, web=1)
    assert probe.after(4) == ["web"]
    assert probe.after(1) == []
    assert probe.after(2, web=1) == [], "it begins anew"


def test_a_single_burst_is_forgotten() -> None:
    probe = Probe()
    probe.after(1, web=100)
    assert probe.after(6) == []
    assert probe.after(1, web=100) == []


def test_single_rejections_now_and_then_do_not_last() -> None:
    probe = Probe()
    for _ in range(5):
        assert probe.after(1, web=1) == []
        assert probe.after(3) == []


def test_a_server_that_recovers_sooner_than_it_fails_forgets_sooner() -> None:
    readiness, found = Readiness(["web"], 5 * SECOND, 2 * SECOND), {}
    for second, count in enumerate([0, 1, 1, 1, 1, 2, 2, 2, 2]):
        found = readiness.look(second * SECOND, {"web": count})
    assert found == {}
    assert readiness.look(10 * SECOND, {"web": 3}) == {}, "no two of the rejections are within two seconds"


def test_the_first_rejection_of_a_level_that_a_reload_has_added_counts() -> None:
    readiness = Readiness(["web"], SECOND, SECOND)
    readiness.look(0, {})
    readiness.look(SECOND, {"web": 1})
    assert readiness.look(2 * SECOND, {"web": 2}) == {"web": SECOND}


def test_rejections_that_not_every_look_finds_last() -> None:
    probe = Probe()
    assert probe.after(1, web=1) == []
    assert probe.after(1) == []
    assert probe.after(1, web=1) == ["web"]


@pytest.mark.parametrize("every", [3, 10, 60])
def test_seldom_looks_see_it_too(every: int) -> None:
    probe = Probe(every)
    assert probe.after(1, web=5) == []
    assert probe.after(1, web=5) == ["web"]
    assert probe.after(3, web=1) == ["web"]
    assert probe.after(2) == []


def test_the_time_since_when_is_told() -> None:
    probe = Probe()
    probe.after(5, web=1)

    assert probe.readiness.look(probe.now, probe.counts) == {"web": SECOND}
