"""Open streams are counted by level and by flow, exactly, whatever happens to levels meanwhile."""

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from apf_middleware.classification import Classification, Resource
from apf_middleware.config import Configuration, load_text
from apf_middleware.config.streams import StreamSettings
from apf_middleware.estimation import WatchTracker
from apf_middleware.exceptions import TicketStateError
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.runtime import Admission, Controller, OpenStreams
from apf_middleware.runtime.open_streams import Stream, StreamRegistry
from tests.support.builds import raises_for_wrong_type

if TYPE_CHECKING:
    from collections.abc import Callable

PODS = Resource("pods", namespace="shop")


def configuration(*levels: str, streams: str = "{}", server: str = "{}") -> Configuration:
    documents = [
        f"""
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: {name}}}
spec: {{shares: 100, streams: {streams}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: to-{name}}}
spec: {{level: {name}, rules: [{{httpRules: [{{}}]}}]}}
"""
        for name in levels
    ]
    start = f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: 20, defaults: none, streams: {server}}}\n"
    return load_text("---".join([start, *documents]))


class House:
    """A controller under a clock that stands still, and requests for it."""

    def __init__(self, config: Configuration) -> None:
        self.time = 0
        self.controller = Controller(config, now=lambda: self.time)

    def comes(self, level: str = "a", flow: str = "alice", work: Work | None = None) -> Admission:
        place = Classification(f"to-{level}", level, flow, hash(flow) & 0xFFFF)
        admission = Admission(self.controller.destination(place, work or Work()))
        self.controller.arrive(self.time, admission)
        return admission

    @property
    def open(self) -> dict[str, int]:
        return {name: n for name, n in self.controller.registry.streams.counts(self.controller.levels).items() if n}


def open_streams(max_open: int | None = None, max_open_per_flow: int | None = None) -> OpenStreams:
    streams = OpenStreams(lambda: 0)
    streams.adopt(StreamSettings(max_open=max_open, max_open_per_flow=max_open_per_flow))
    return streams


def test_a_level_has_as_many_streams_as_it_may() -> None:
    streams = open_streams(max_open=3)
    assert [streams.enter(("s", name)) for name in "abcd"] == [True, True, True, False]
    streams.leave(("s", "b"))

    assert streams.enter(("s", "d"))
    assert (streams.open, streams.closed) == (3, 1)
    assert repr(streams) == "<OpenStreams: 3 of 3 flows>"


def test_the_streams_of_a_flow_are_limited() -> None:
    streams = open_streams(max_open=5, max_open_per_flow=2)

    assert [streams.enter(("s", "a")) for _ in range(3)] == [True, True, False]
    assert streams.enter(("t", "a")), "a flow of another schema is another flow"
    assert streams.enter(("s", "b"))


def test_a_limit_of_zero_allows_no_stream() -> None:
    assert not open_streams(max_open=0).enter(("s", "a"))
    assert not open_streams(max_open_per_flow=0).enter(("s", "a"))


def test_counts_are_exact_in_random_worlds() -> None:
    chance = random.Random(7)
    streams, tracker = open_streams(max_open=6, max_open_per_flow=3), WatchTracker()
    pool: list[Stream] = []
    for _ in range(3000):
        if chance.random() < 0.4 or not pool:
            pool.append(Stream(streams, ("s", chance.choice("abc")), tracker))
        stream = chance.choice(pool)
        happens: list[Callable[[], object]] = [stream.enter, stream.leave, stream.close, partial(_watch, stream)]
        chance.choice(happens)()
        if stream.is_over:
            pool.remove(stream)
        streams.check()
        tracker.check()
        assert streams.open == sum(one.is_counted for one in pool) <= 6
    for stream in pool:
        stream.close()
        stream.close()
    assert (streams.open, tracker.total) == (0, 0)


def _watch(stream: Stream) -> None:
    if not stream.is_over:
        stream.watch(PODS)


def test_a_request_that_returns_its_seats_is_an_open_stream_until_its_end() -> None:
    house = House(configuration("a"))
    admission = house.comes()
    assert house.open == {}

    assert admission.release()
    assert admission.release(), "again does nothing"
    assert (admission.seats, house.open) == (0, {"a": 1})
    assert admission.stream is not None
    admission.stream.close()
    assert house.open == {}


def test_a_stream_beyond_the_limit_keeps_its_seats() -> None:
    house = House(configuration("a", streams="{maxOpen: 1}"))
    first, second = house.comes(), house.comes()
    assert first.release()

    assert not second.release()
    assert second.seats == 1
    assert house.open == {"a": 1}
    assert first.stream is not None
    first.stream.close()
    assert second.release()
    assert second.seats == 0


def test_open_streams_outlive_their_level_and_are_found_again_by_its_name() -> None:
    house = House(configuration("a", "b", streams="{maxOpen: 2}"))
    streams = [house.comes(), house.comes()]
    assert all(one.release() for one in streams)
    house.controller.reconfigure(configuration("b"))
    assert house.open == {"a": 2}, "shown as long as there are any"
    house.controller.reconfigure(configuration("a", "b", streams="{maxOpen: 2}"))

    assert not house.comes().release(), "those that are still open count"
    for one in streams:
        assert one.stream is not None
        one.stream.close()
    assert house.open == {}
    assert house.comes().release()


def test_a_removed_level_is_forgotten_when_its_last_stream_has_ended() -> None:
    house = House(configuration("a", "b"))
    one = house.comes()
    one.release()
    house.controller.reconfigure(configuration("b"))
    assert one.stream is not None
    one.stream.close()
    counts = house.controller.registry.streams.counts(house.controller.levels)
    assert "a" not in counts
    house.controller.reconfigure(configuration("b"))

    assert "a" not in house.controller.registry.streams._levels
    assert repr(house.controller.registry.streams) == "<StreamRegistry: 0 open>"


def test_limits_follow_the_configuration_and_open_streams_stay() -> None:
    house = House(configuration("a"))
    streams = [house.comes() for _ in range(3)]
    assert all(one.release() for one in streams)
    house.controller.reconfigure(configuration("a", streams="{maxOpen: 2}"))
    assert house.open == {"a": 3}

    for one in streams[:2]:
        assert not house.comes().release()
        assert one.stream is not None
        one.stream.close()
    assert house.comes().release()


def test_what_is_watched_is_forgotten_with_the_request() -> None:
    house = House(configuration("a"))
    watches, admission = house.controller.watches, house.comes()
    everything = admission.watch("pods")
    admission.watch("pods", "shop")
    assert watches.interested("update", PODS) == 2
    admission.unwatch(everything)
    admission.unwatch(everything)
    assert watches.interested("update", PODS) == 1
    admission.release()
    assert watches.interested("update", PODS) == 1, "a stream watches"
    assert admission.stream is not None
    admission.stream.close()

    assert (watches.interested("update", PODS), watches.total) == (0, 0)


def test_a_request_whose_watches_have_ended_early_watches_nothing() -> None:
    """A watch is a stream, whatever it answers; such a request is a stream only if its response says so."""
    admission = House(configuration("a")).comes()
    for watch in [admission.watch("pods"), admission.watch("pods", "shop")]:
        assert admission.long_term().watches
        admission.unwatch(watch)
    assert not admission.long_term().watches


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("watch", (5,), "resource is 5, but it must be text"),
        ("watch", ("pods", None), "namespace is None, but it must be text"),
        ("unwatch", ("pods",), "watch is 'pods', but it must be what `watch` has returned"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(method: str, arguments: tuple[Any, ...], message: str) -> None:
    house = House(configuration("a"))
    admission = house.comes()
    admission.watch("pods")
    with raises_for_wrong_type(message):
        getattr(admission, method)(*arguments)
    assert house.controller.watches.total == 1


def test_nothing_begins_after_the_end() -> None:
    house = House(configuration("a"))
    plain, stream = house.comes(), house.comes()
    house.controller.release(plain)
    stream.release()
    assert stream.stream is not None
    stream.stream.close()

    for one in (plain, stream):
        with pytest.raises(TicketStateError, match="can't become a stream or begin a watch"):
            one.watch("pods")
        assert one.release()
    assert house.controller.watches.total == 0
    assert house.open == {}


def test_a_rejection_for_too_many_streams_is_counted_as_such() -> None:
    house = House(configuration("a"))
    admission = Admission(house.controller.destination(Classification("to-a", "a", "alice", 7), Work(3)))
    house.controller.refuse(5, admission, Reason.STREAM_LIMIT)

    assert admission.is_rejected
    assert admission.reason is Reason.STREAM_LIMIT
    counters = house.controller.levels["a"].counters_of("to-a")
    assert counters.rejected[Reason.STREAM_LIMIT] == 1
    assert counters.estimated_widths() == {1: 0, 3: 1}


@pytest.mark.parametrize("limit_ns", [5, 6, 0])
def test_sends_are_watched_only_where_that_is_wanted(limit_ns: int) -> None:
    streams = open_streams()
    sends = streams.sends
    assert repr(sends) == "<BlockedSends of 0 senders, 0 ns each>"
    streams.adopt(StreamSettings(release_when_blocked_ns=limit_ns))

    assert streams.sends is sends, "requests that have begun are looked at with the new limit"
    assert repr(sends) == f"<BlockedSends of 0 senders, {limit_ns} ns each>"


def test_levels_without_settings_use_those_of_the_server() -> None:
    house = House(configuration("a", server="{releaseAtStart: false, releaseWhenBlocked: 1s}"))
    settings = house.controller.levels["a"].streams.settings

    assert settings == StreamSettings(False, 10**9)  # noqa: FBT003


def test_a_registry_without_streams_has_no_counts() -> None:
    assert dict(StreamRegistry(lambda: 0).counts({})) == {}
