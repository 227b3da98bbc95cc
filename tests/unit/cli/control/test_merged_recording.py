"""Recordings of several workers as one."""

import io

from apf_middleware.cli.control.line_streams import StreamEvent
from apf_middleware.cli.control.merged_recording import MergedRecording
from apf_middleware.recordings import Footer, Header, RecordedRequest, parse_line, request_line
from apf_middleware.recordings.marks import wall_time

SECOND = 10**9
START = 1_786_108_536 * SECOND


def header(start_ns: int = START, configuration: str = "0123", standing: int = 0) -> str:
    return Header(wall_time(start_ns), "1", configuration=configuration, standing=standing).line()


def row(seconds: float, user: str = "") -> str:
    return request_line(RecordedRequest(round(seconds * SECOND), SECOND, user=user))


class Merged:
    """A merged recording, and the lines that it has written."""

    def __init__(self, workers: int = 2) -> None:
        self.file = io.StringIO()
        self.recording = MergedRecording(workers, self.file)

    def add(self, stream: int, *lines: str) -> None:
        for line in lines:
            self.recording.add(StreamEvent(stream, line + "\n"))

    @property
    def lines(self) -> list[Header | Footer | RecordedRequest]:
        return [parse_line(line) for line in self.file.getvalue().splitlines()]

    @property
    def rows(self) -> list[tuple[float, str, int]]:
        return [(one.time_ns / SECOND, one.user, one.worker) for one in self.lines if isinstance(one, RecordedRequest)]


def test_times_count_from_the_first_start_and_rows_know_their_worker() -> None:
    merged = Merged()
    merged.add(1, header(START + SECOND, standing=2), row(0.5, "b"))
    merged.add(0, header(standing=1))
    merged.recording.begin()
    merged.add(0, row(3, "c"), row(1, "a"), "")
    merged.add(0, Footer(2, 1).line())
    merged.add(1, Footer(1, 2, is_settled=False).line())
    footer = merged.recording.finish(10.0, "time")

    first, *_, last = merged.lines
    assert isinstance(first, Header)
    assert (first.start_ns, first.workers, first.standing, first.configuration) == (START, 2, 3, "0123")
    assert merged.rows == [(1.0, "a", 0), (1.5, "b", 1), (3.0, "c", 0)]
    assert last == footer == Footer(3, 3, 10.0, "time", is_settled=False)


def test_rows_are_held_until_no_earlier_one_is_expected() -> None:
    merged = Merged(1)
    merged.add(0, header())
    merged.recording.begin()
    merged.add(0, row(4), row(1), row(3))
    merged.recording.write()
    assert merged.rows == []

    merged.add(0, row(8.5))
    merged.recording.write()
    assert [one for one, *_ in merged.rows] == [1.0, 3.0]
    merged.add(0, row(2))
    merged.recording.finish(9, "time")
    assert [one for one, *_ in merged.rows] == [1.0, 3.0, 2.0, 4.0, 8.5], "readers sort it in"


def test_a_worker_that_went_away_is_told() -> None:
    merged = Merged()
    merged.add(0, header(), row(1), Footer(1).line())
    merged.add(1, header(configuration="4567"), row(1))
    merged.recording.begin()
    footer = merged.recording.finish(2, "interrupted")

    assert footer.reason == "incomplete"
    assert [merged.recording.end_of(number) for number in (0, 1)] == ["time", None]
    assert merged.recording.header is not None
    assert merged.recording.header.configuration == "", "they have different ones"


def test_the_reason_is_that_of_the_workers_if_they_agree() -> None:
    for reason, said, expected in (
        ("time", ["stopped", "stopped"], "stopped"),
        ("time", ["stopped", "time"], "time"),
        ("time", ["shutdown", "shutdown"], "shutdown"),
        ("time", ["time", "shutdown"], "incomplete"),
        ("interrupted", ["stopped", "shutdown"], "incomplete"),
        ("interrupted", ["stopped", "stopped"], "interrupted"),
    ):
        merged = Merged()
        for number, one in enumerate(said):
            merged.add(number, header(), Footer(0, reason=one).line())  # type: ignore[arg-type]
        merged.recording.begin()

        assert merged.recording.finish(1, reason).reason == expected  # type: ignore[arg-type]


def test_lines_that_are_nothing_are_counted() -> None:
    merged = Merged(1)
    merged.add(0, "nonsense", row(1), header())
    merged.recording.begin()
    merged.add(0, "{}", row(2))
    merged.recording.finish(1, "time")

    assert merged.recording.unreadable == 2
    assert len(merged.rows) == 2, "rows may come before all headers have come"
