"""What a shadow says about few requests, compared with what was computed by hand.

All requests are of level ``a``. The real server has seats for all of them at once. The configuration that is tried has
one seat, and an exact queue for each of the flows ``elephant`` and ``mouse``, which take turns.
"""

import pytest

from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime.shadow.report import TrialFacts, report
from apf_middleware.snapshots.shadow import ShadowSnapshot
from tests.support.shadow_world import MS, Client, ShadowWorld, config_text

ELEPHANT, MOUSE = "elephant", "mouse"


def config(seats: int, level: str = "queuing: {queues: exact, queueLengthLimit: 10}, waitLimit: 10s") -> Configuration:
    levels = f"{{shares: 100, {level}}}", "{shares: 0, response: Reject}"
    return load_text(config_text(seats=seats, discipline="max-min-serial", borrowing="immediate", levels=levels))


def tried(requests: list[tuple[int, str, int]], level: str = "", leaves: dict[int, int] | None = None) -> ShadowWorld:
    """Run requests that arrive at, are of a flow, and last; times in milliseconds."""
    world = ShadowWorld(config(100), config(1, level) if level else config(1))
    world.run(
        [
            Client(number, at * MS, flow, "a", Work(1), lasts * MS, (leaves or {}).get(number))
            for number, (at, flow, lasts) in enumerate(requests)
        ]
    )
    return world


def runs(world: ShadowWorld) -> list[tuple[str, float]]:
    return [(outcome, wait / MS) for _, (outcome, wait) in sorted(world.shadow_runs().items())]


def shown(world: ShadowWorld) -> ShadowSnapshot:
    return report(world.shadow, TrialFacts("new.yaml", classify_only=False))


def test_one_flow_waits_for_its_own_requests() -> None:
    # The seat is taken from 0 to 10, 10 to 30 and 30 to 60, and free again when the last one arrives.
    world = tried([(0, ELEPHANT, 10), (1, ELEPHANT, 20), (2, ELEPHANT, 30), (100, ELEPHANT, 5)])

    assert runs(world) == [("at-once", 0), ("waited", 9), ("waited", 28), ("at-once", 0)]


def test_a_mouse_goes_before_the_elephants_waiting_requests() -> None:
    # When the seat is free at 10, the elephant has been served and the mouse has not: the mouse's turn comes first.
    world = tried([(0, ELEPHANT, 10), (1, ELEPHANT, 10), (2, ELEPHANT, 10), (3, MOUSE, 4)])

    assert runs(world) == [("at-once", 0), ("waited", 13), ("waited", 22), ("waited", 7)]
    found = shown(world)
    assert {one.flow: (one.requests, one.waits.requests) for one in found.flows} == {ELEPHANT: (3, 2), MOUSE: (1, 1)}
    [schema] = [one for one in found.schemas if one.decided]
    assert (schema.at_once, schema.waits.requests) == (1, 3)
    assert schema.waits.mean == pytest.approx(0.014)
    assert (found.decided, found.agreeing, found.assumed) == (4, 1, 0)
    level = next(one for one in found.levels if one.level == "a")
    assert (level.peak, level.seats_in_use, level.waiting) == (1, 0, 0)


def test_the_longest_queue_is_full_and_the_other_is_not() -> None:
    # One of the elephant's requests may wait. The second one that would wait is rejected, the mouse's is not.
    world = tried(
        [(0, ELEPHANT, 10), (1, ELEPHANT, 10), (2, ELEPHANT, 10), (3, MOUSE, 10)],
        "queuing: {queues: exact, queueLengthLimit: 1}, waitLimit: 10s",
    )

    assert runs(world) == [("at-once", 0), ("waited", 19), ("queue-full", 0), ("waited", 7)]
    assert {one.flow: one.rejected for one in shown(world).flows} == {ELEPHANT: {"queue-full": 1}, MOUSE: {}}


def test_waits_end_at_their_limit() -> None:
    # The seat is free at 50, but the second request must not wait beyond 1 + 30. The third one may, until 25 + 30.
    world = tried(
        [(0, ELEPHANT, 50), (1, MOUSE, 10), (25, MOUSE, 10)],
        "queuing: {queues: exact, queueLengthLimit: 10}, waitLimit: 30ms",
    )

    assert runs(world) == [("at-once", 0), ("time-out", 0), ("waited", 25)]


def test_without_a_queue_requests_are_rejected_while_the_seat_is_taken() -> None:
    world = tried([(0, ELEPHANT, 10), (9, MOUSE, 10), (11, MOUSE, 10)], "response: Reject")

    assert runs(world) == [("at-once", 0), ("concurrency-limit", 0), ("at-once", 0)]
    found = shown(world)
    assert {(one.real, one.shadow, one.requests) for one in found.decisions} == {
        ("at-once", "at-once", 2),
        ("at-once", "rejected", 1),
    }


def test_a_request_that_begins_earlier_in_the_shadow_ends_earlier_there() -> None:
    # The real server has one seat and the shadow two. There the second request runs from 1 to 21, and the third one
    # from 10 to 15; here they begin at 10 and 30.
    world = ShadowWorld(config(1), config(2))
    requests = [(0, ELEPHANT, 10), (1, ELEPHANT, 20), (2, ELEPHANT, 5)]
    world.run([Client(n, at * MS, flow, "a", Work(1), lasts * MS) for n, (at, flow, lasts) in enumerate(requests)])

    assert [world.real.runs[n].wait / MS for n in range(3)] == [0, 9, 28]
    assert runs(world) == [("at-once", 0), ("at-once", 0), ("waited", 8)]
    assert world.shadow.lag_ns == 0
