"""Several workers: real processes, some of which are killed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.metrics import DIRECTORY_VARIABLE, DirectoryCollector, Publisher, ServerReading, scrape
from apf_middleware.metrics import multiprocess as room
from tests.support.readings import EXEMPT, FULL, QUEUE, SECOND, Metrics, busy_counters, reading

WORKER = Path(__file__).parents[2] / "support" / "metrics_worker.py"
USERS = {"priority_level": "work", "flow_schema": "users"}


class Worker:
    """A process that publishes."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, *orders: str) -> None:
        assert self.process.stdin
        assert self.process.stdout
        for order in orders:
            self.process.stdin.write(f"{order}\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline().split() == order.split()[:1]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(*orders: str) -> Worker:
        workers.append(Worker(tmp_path))
        workers[-1].order(*orders)
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


@pytest.fixture
def publish(tmp_path: Path) -> Iterator[Callable[[ServerReading], Publisher]]:
    """Publish a reading from this process, which must be marked as changed by hand."""
    publishers: list[Publisher] = []

    def publish(shown: ServerReading, prefix: str = "apf") -> Publisher:
        publishers.append(Publisher(lambda: shown, prefix, tmp_path))
        publishers[-1].publish()
        return publishers[-1]

    yield publish
    for publisher in publishers:
        publisher.close()


def value(directory: Path, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(DirectoryCollector(directory))
    return registry.get_sample_value(name, labels)


def dispatched(directory: Path) -> float | None:
    return value(directory, "apf_dispatched_requests_total", **USERS)


# What several workers come to


def test_counters_histograms_and_seats_of_all_workers_add_up(tmp_path: Path, start: Callable[..., Worker]) -> None:
    start("dispatch 3", "publish")
    start("dispatch 5", "publish")

    assert dispatched(tmp_path) == 8
    assert value(tmp_path, "apf_request_wait_duration_seconds_bucket", execute="true", le="0.0", **USERS) == 8
    assert value(tmp_path, "apf_request_wait_duration_seconds_count", execute="true", **USERS) == 8
    assert value(tmp_path, "apf_demand_seats_sum", priority_level="work") == 2 * 0.5 * SECOND
    assert value(tmp_path, "apf_server_seats") == 20
    assert value(tmp_path, "apf_current_executing_requests", **USERS) == 8
    assert value(tmp_path, "apf_info", version="1") == 1


def test_what_changes_is_published_again(tmp_path: Path, start: Callable[..., Worker]) -> None:
    worker = start("dispatch 3", "publish", "dispatch 4")
    assert dispatched(tmp_path) == 3

    worker.order("publish")
    assert dispatched(tmp_path) == 7


def test_a_killed_worker_loses_its_gauges_and_keeps_its_counters(tmp_path: Path, start: Callable[..., Worker]) -> None:
    killed = start("dispatch 3", "publish")
    start("dispatch 5", "publish")

    killed.process.kill()
    os.waitid(os.P_PID, killed.process.pid, os.WEXITED | os.WNOWAIT)  # dead, but nobody has taken note of it

    assert value(tmp_path, "apf_server_seats") == 10
    assert value(tmp_path, "apf_current_executing_requests", **USERS) == 5
    assert dispatched(tmp_path) == 8
    killed.process.wait()
    assert value(tmp_path, "apf_server_seats") == 10


def test_a_reused_process_number_is_another_process(tmp_path: Path, publish: Callable[..., Publisher]) -> None:
    publish(reading(QUEUE))
    [own] = tmp_path.glob("gauge_livesum_*.db")
    kind, birth = own.name.split("-")[0], own.name.split("-")[2]
    other = own.with_name(f"{kind}-{os.getpid()}-{int(birth) + 1}-0.db")
    other.write_bytes(own.read_bytes())

    assert value(tmp_path, "apf_server_seats") == 50
    assert own.exists()
    assert not other.exists()


def test_a_worker_that_ends_removes_its_gauges(tmp_path: Path, start: Callable[..., Worker]) -> None:
    start("dispatch 3", "close")
    start("dispatch 5", "publish")

    assert len(list(tmp_path.glob("gauge_livesum_*.db"))) == 1
    assert dispatched(tmp_path) == 8


def test_series_of_a_removed_level_disappear(tmp_path: Path, start: Callable[..., Worker]) -> None:
    worker = start("dispatch 3", "levels work gone", "publish")
    assert value(tmp_path, "apf_demand_seats_count", priority_level="gone") == SECOND
    worker.order("levels work", "publish")

    assert b"gone" not in scrape(tmp_path)[0]
    assert value(tmp_path, "apf_demand_seats_count", priority_level="work") == SECOND
    assert dispatched(tmp_path) == 3
    worker.order("dispatch 1", "publish")
    assert dispatched(tmp_path) == 4


# What one worker writes


def test_one_worker_publishes_what_it_would_expose(tmp_path: Path, publish: Callable[..., Publisher]) -> None:
    publish(FULL)
    registry = CollectorRegistry()
    registry.register(DirectoryCollector(tmp_path))

    def samples(source: CollectorRegistry) -> dict[tuple[object, ...], float]:
        return {
            (sample.name, *sorted(pair for pair in sample.labels.items() if pair[0] != "pid")): sample.value
            for metric in source.collect()
            for sample in metric.samples
        }

    assert samples(registry) == samples(Metrics(FULL).registry)


def test_virtual_times_of_several_workers_stay_apart(tmp_path: Path, publish: Callable[..., Publisher]) -> None:
    for r in (10**8, 3 * 10**8):
        publish(reading(QUEUE._replace(meters={"current_r": r})))

    lines = [line for line in scrape(tmp_path)[0].decode().splitlines() if line.startswith("apf_current_r{")]
    assert sorted(line.rpartition(" ")[2] for line in lines) == ["1", "3"]
    assert all(f'pid="apf-{os.getpid()}-' in line for line in lines)


def test_the_least_fair_fraction_is_exposed(tmp_path: Path, publish: Callable[..., Publisher]) -> None:
    for fraction in (0.75, 0.5, 1.5):
        publish(reading(fair_fraction=fraction))

    assert value(tmp_path, "apf_seat_fair_frac") == 0.5


def test_publishers_with_different_prefixes_share_a_directory(
    tmp_path: Path, publish: Callable[..., Publisher]
) -> None:
    publish(reading(QUEUE, schema_counters=(busy_counters(),)))
    publish(reading(QUEUE, schema_counters=(busy_counters(),)), "other")

    assert dispatched(tmp_path) == value(tmp_path, "other_dispatched_requests_total", **USERS) == 9


def test_publishing_after_the_end_counts_nothing_twice(tmp_path: Path, publish: Callable[..., Publisher]) -> None:
    publisher = publish(reading(QUEUE, schema_counters=(busy_counters(),)))
    publisher.close()
    publisher.publish()

    assert dispatched(tmp_path) == 9


def test_series_without_a_number_disappear_from_the_files(tmp_path: Path) -> None:
    shown = [reading(QUEUE._replace(next_s=(1, 2))), reading(QUEUE), reading(QUEUE._replace(next_s=(10**8, 10**8)))]
    publisher = Publisher(lambda: shown.pop(0), directory=tmp_path)

    found = []
    for _ in range(2):
        publisher.publish()
        found.append(b"next_s_bounds{" in scrape(tmp_path)[0])
    shown.append(shown[0])
    publisher.close()
    assert found == [True, False]


def test_the_file_system_has_room_for_what_is_written_to_a_file_later(tmp_path: Path) -> None:
    """Otherwise the worker would be killed when it writes to a page that a full file system has no room for."""
    names: list[str] = []
    publisher = Publisher(lambda: reading(*(QUEUE._replace(name=name) for name in names)), directory=tmp_path)
    for number in (0, 1, 400, 401):
        names[:] = [f"level-{one}" for one in range(number)]
        publisher.publish()
        found = scrape(tmp_path)[0]
        assert all(f'nominal_limit_seats{{priority_level="{name}"}}'.encode() in found for name in names)
        for path in tmp_path.iterdir():
            assert path.stat().st_blocks * 512 >= path.stat().st_size > 0
    publisher.close()


def test_files_that_were_removed_are_written_again(tmp_path: Path, publish: Callable[..., Publisher]) -> None:
    publisher = publish(reading(QUEUE, schema_counters=(busy_counters(),)))
    before = scrape(tmp_path)[0]
    for path in tmp_path.iterdir():
        path.unlink()
    assert scrape(tmp_path)[0] == b""
    publisher.publish()

    assert scrape(tmp_path)[0] == before


def test_an_unchanged_number_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = MmapedDict.write_value

    def note(self: MmapedDict, key: str, *rest: float) -> None:
        written.append(key)
        write(self, key, *rest)  # type: ignore[no-untyped-call]

    counters = busy_counters()
    publisher = Publisher(lambda: reading(QUEUE, schema_counters=(counters,)), directory=tmp_path)
    publisher.publish()
    monkeypatch.setattr(MmapedDict, "write_value", note)
    counters.no_accommodation += 1
    publisher.publish()
    publisher.close()

    assert [key for key in written if "no_accommodation" not in key] == []
    assert len(written) == 1


def test_a_forked_process_writes_files_of_its_own(tmp_path: Path) -> None:
    program = f"""
import os, sys
sys.path.insert(0, {str(WORKER.parents[3])!r})
from apf_middleware.metrics import Publisher
from tests.support.readings import reading
publisher = Publisher(lambda: reading(), directory={str(tmp_path)!r})
publisher.publish()
child = os.fork()
publisher.publish()
if child:
    os.waitpid(child, 0)
    publisher.publish()
    print(child)
"""
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    writers = [path.name.split("-")[1] for path in tmp_path.glob("counter_*.db")]
    assert len(writers) == 2
    assert result.stdout.strip() in writers
    assert result.stderr == ""


# The directory


def test_the_directory_is_the_one_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    publisher = Publisher(lambda: reading(QUEUE))
    publisher.publish()

    assert b"apf_server_seats 50\n" in scrape()[0]
    publisher.close()
    assert str(tmp_path) in repr(publisher)
    assert str(tmp_path) in repr(DirectoryCollector())


@pytest.mark.parametrize("given", ["", "nowhere"])
def test_a_directory_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, given and str(tmp_path / given))

    for call in (lambda: Publisher(lambda: FULL), scrape):
        with pytest.raises(InvalidValueError, match=r"PROMETHEUS_MULTIPROC_DIR .* directory that exists\. Make"):
            call()


def test_an_apps_own_metrics_are_exposed_too(tmp_path: Path, publish: Callable[..., Publisher]) -> None:
    publish(reading(QUEUE))
    own = MmapedDict(str(tmp_path / f"counter_{os.getpid()}.db"))  # type: ignore[no-untyped-call]
    own.write_value(mmap_key("app", "app_total", ["a"], ["b"], "Help."), 3, 0)  # type: ignore[no-untyped-call]
    (tmp_path / "counter_1.db").touch()  # just being made
    (tmp_path / "gauge_livesum_1.db").touch()

    body = scrape(tmp_path)[0]
    own.close()  # type: ignore[no-untyped-call]

    assert b'app_total{a="b"} 3\n' in body
    assert b"apf_server_seats" in body
    assert (tmp_path / "gauge_livesum_1.db").exists()  # not ours to judge


def test_metrics_of_several_workers_are_valid_in_both_formats(
    tmp_path: Path, publish: Callable[..., Publisher]
) -> None:
    publish(FULL)
    publish(FULL)
    body, content_type = scrape(tmp_path, "application/openmetrics-text")
    families = {
        family.name: family
        for family in parse_open_metrics(body.decode())  # type: ignore[no-untyped-call]
    }

    assert content_type.startswith("application/openmetrics-text")
    assert families["apf_request_execution_seconds"].type == "histogram"
    assert families["apf_hang_ups"].samples[0].value == 2


# Who lives


def test_this_process_has_a_start_time() -> None:
    assert room._birth(os.getpid()) == room._birth(os.getpid()) is not None


@pytest.mark.parametrize(("state", "birth"), [("S", "22"), ("R", "22"), ("Z", None), ("X", None)])
def test_process_names_may_have_any_characters_and_zombies_are_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, birth: str | None
) -> None:
    """A process' line in the system has its number, its name, its state, and from the fourth field on numbers."""
    monkeypatch.setattr(room, "_PROCESSES", tmp_path)
    for name in ("7", "self"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stat").write_text(f"7 (a b) Z 1) {state} {' '.join(map(str, range(4, 53)))}")

    assert room._birth(7) == birth
    assert room._birth(8) is None


def test_a_signal_finds_processes_on_systems_without_start_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_PROCESSES", Path("/nowhere"))
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    assert room._birth(os.getpid()) == "0"
    assert room._birth(process.pid) is None


def test_a_process_of_another_user_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(room, "_PROCESSES", Path("/nowhere"))
    monkeypatch.setattr(os, "kill", forbid)
    assert room._birth(1) == "0"


def test_an_exempt_level_is_published_too(tmp_path: Path, publish: Callable[..., Publisher]) -> None:
    publish(reading(EXEMPT, schema_counters=(busy_counters("exempt"),)))

    assert value(tmp_path, "apf_dispatched_requests_total", priority_level="exempt", flow_schema="users") == 9
