"""What members tell about durations: evenly sampled, bounded, and each request once."""

import zlib
from itertools import pairwise

import pytest

from apf_middleware.classification import Classification
from apf_middleware.config.adaptive_seats import SeatBounds
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.fleet.samples import DurationSamples
from apf_middleware.runtime import Admission, Controller
from apf_middleware.runtime.duration_sampler import DurationSampler
from tests.support.level_world import configuration


class Sampled:
    """A sampler, and a clock that goes on by a millisecond for each request."""

    def __init__(self) -> None:
        self.now = 0
        self.sampler = DurationSampler(SeatBounds(5, 40))
        self.controller = Controller(configuration(), now=lambda: self.now)
        self.place = Classification("all", "crowd", "alice", 7)

    def end(self, route: str = "GET /", *, status: int = 200) -> None:
        admission = Admission(self.controller.destination(self.place, Work()))
        self.controller.arrive(self.now, admission)
        if status >= 500:
            admission.fail(status)
        self.now += 1_000_000
        self.sampler.observe(self.now, route, self.now, admission)
        self.controller.release(admission)

    def take(self) -> DurationSamples:
        return self.sampler.take(self.now)


def test_each_request_is_told_once() -> None:
    sampled = Sampled()
    for route, status in (("GET /", 200), ("POST /", 500), ("GET /", 503), ("GET /", 504)):
        sampled.end(route, status=status)
    get, post = (zlib.crc32(route) for route in (b"GET /", b"POST /"))
    durations, ages = (10**6, 2 * 10**6, 3 * 10**6, 4 * 10**6), (3 * 10**6, 2 * 10**6, 10**6, 0)
    assert sampled.take() == DurationSamples(0, (get, post, get, get), durations, ages, (0, 1, 3, 2))
    assert sampled.take() == DurationSamples()


@pytest.mark.parametrize(("members", "most"), [(1, 512), (4, 128), (1000, 8)])
@pytest.mark.parametrize("requests", [7, 100, 600, 5000])
def test_many_requests_are_sampled_evenly(members: int, most: int, requests: int) -> None:
    sampled = Sampled()
    sampled.sampler.learn(members, "grew")
    for _ in range(2):
        begin = sampled.now
        for _ in range(requests):
            sampled.end()
        ended = [sampled.now - age - begin for age in sampled.take().ages]
        assert min(requests, most // 2) <= len(ended) <= most
        steps = {later - earlier for earlier, later in pairwise(ended)}
        assert len(steps) == 1
    assert sampled.sampler.reason == "grew"


def test_only_rejections_for_lack_of_seats_count() -> None:
    sampled = Sampled()
    for reason in Reason:
        sampled.sampler.note_rejected(0, reason)
    assert sampled.take().rejected == 4
    assert sampled.take().rejected == 0


def test_the_metrics_are_those_of_the_process_that_allocates() -> None:
    """Otherwise the bounds of a fleet would be counted once for each member."""
    assert Sampled().sampler.reading() is None


def test_a_path_that_is_no_text_does_not_end_the_reports() -> None:
    sampled = Sampled()
    sampled.end("GET /\ud800")
    assert len(sampled.take().durations) == 1
