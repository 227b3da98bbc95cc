"""Durations of recorded requests that have none."""

from random import Random

from apf_middleware.recordings import RecordedRequest
from apf_middleware.simulation.recorded_durations import RecordedDurations


def request(path: str, duration_ns: int | None, schema: str = "all", outcome: str = "served") -> RecordedRequest:
    return RecordedRequest(0, duration_ns, path=path, schema=schema, outcome=outcome)  # type: ignore[arg-type]


def test_they_are_those_of_the_same_path_then_of_the_schema_then_of_all() -> None:
    samples, dice = RecordedDurations(), Random(1)
    assert samples.draw(request("/a", None), dice) is None
    samples.add(request("/reports/7", 7))
    samples.add(request("/reports/~0123456789abcdef", 7))
    samples.add(request("/slow", 9, "slow"))

    assert not samples.is_empty
    assert samples.draw(request("/reports/8", None), dice) == 7
    assert samples.draw(request("/other", None, "slow"), dice) == 9
    assert samples.draw(request("/other", None, "new"), dice) in {7, 9}


def test_rejections_have_no_duration_to_learn_from() -> None:
    samples = RecordedDurations()
    samples.add(request("/a", 5, outcome="rejected"))
    samples.add(request("/a", None))

    assert samples.draw(request("/a", None), Random(1)) is None
    assert samples.is_empty


def test_a_bounded_sample_stands_for_all() -> None:
    samples, dice = RecordedDurations(), Random(1)
    for number in range(20_000):
        samples.add(request("/a", number))
    drawn = [samples.draw(request("/a", None), dice) or 0 for _ in range(2_000)]

    assert 8_000 < sum(drawn) / len(drawn) < 12_000
    assert len(set(drawn)) <= 256


def test_any_number_of_paths_is_bounded() -> None:
    samples = RecordedDurations()
    for number in range(3_000):
        samples.add(request("/" + "a" * number, number))

    assert samples.draw(request("/" + "a" * 2_999, None), Random(1)) is not None
    assert len(samples._samples) <= 2_001
