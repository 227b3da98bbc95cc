"""Which changes of files a watcher reports."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apf_middleware.asgi.watcher import Watcher, watched_directories

TEXT = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: {}}}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "apf.yaml"
    path.write_text(TEXT.format(10))
    return path


def threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "apf: watch the configuration"}


@pytest.fixture
def watcher(file: Path) -> Iterator[Watcher]:
    watcher = Watcher([file])
    yield watcher
    watcher.stop()


def test_a_watcher_reports_only_its_files_also_when_they_are_replaced(
    watcher: Watcher, file: Path, tmp_path: Path
) -> None:
    changed = threading.Semaphore(0)

    def released() -> None:
        changed.release()

    watcher.start(released)
    (tmp_path / "notes.txt").write_text("something else")
    assert not changed.acquire(timeout=0.5)
    (tmp_path / "new").write_text(TEXT.format(20))
    (tmp_path / "new").rename(file)
    assert changed.acquire(timeout=60)


def test_a_file_that_is_still_being_written_is_reported_when_it_is_complete(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter((0, 100, 200, 300, 300))
    changed = threading.Semaphore(0)
    left: list[list[int]] = []

    class Scripted(Watcher):
        def _seen(self) -> tuple[tuple[str, int, int, int, int], ...]:
            return ((str(file), 0, next(sizes, 300), 0, 0),)

    def report() -> None:
        left.append(list(sizes))
        changed.release()

    watcher = Scripted([file])
    monkeypatch.setattr(watcher, "_watch", lambda *_given, **_named: ())
    watcher.start(report)
    assert changed.acquire(timeout=60)
    watcher.stop()
    assert left == [[]]


def test_a_watcher_logs_no_changes_of_other_files(
    watcher: Watcher, file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log may be one of these files, so a line about it would cause the next one, for ever."""
    caplog.set_level(logging.INFO)
    changed = threading.Event()
    watcher.start(changed.set)
    for number in range(5):
        (tmp_path / "server.log").write_text(f"line {number}")
        assert not changed.wait(0.25)
    assert caplog.messages == []

    file.write_text(TEXT.format(20))
    assert changed.wait(60)


def correct_permissions(file: Path) -> None:
    file.chmod(0o640)


def overwrite_and_keep_the_time(file: Path) -> None:
    before = file.stat()
    file.write_text(TEXT.format(20))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [correct_permissions, overwrite_and_keep_the_time])
def test_a_watcher_reports_changes_after_which_time_and_size_are_the_same(
    watcher: Watcher, file: Path, change: Callable[[Path], None]
) -> None:
    """Only after a change of its permissions a file can be read that couldn't be read before."""
    changed = threading.Event()
    before = file.stat().st_ctime_ns
    while file.stat().st_ctime_ns == before:  # the clock of a file system advances in steps of some milliseconds
        change(file)
    watcher.start(changed.set)
    assert changed.wait(60)


def test_a_watcher_that_gets_no_notifications_looks_at_the_files_itself(
    watcher: Watcher, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Many processes of a user share a small number of inotify instances."""

    def no_more_instances(*_given: object, **_named: object) -> None:
        raise OSError("Too many open files")

    monkeypatch.setattr(watcher, "_watch", no_more_instances)
    changed = threading.Semaphore(0)

    def released() -> None:
        changed.release()

    watcher.start(released)
    for seats in (20, 30):
        file.write_text(TEXT.format(seats))
        assert changed.acquire(timeout=60)
    [message] = caplog.messages
    assert message == "apf.watch-failed instead=look at the files every second error=Too many open files"
    [thread] = threads()
    watcher.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_a_mounted_config_map_is_seen_to_change(tmp_path: Path) -> None:
    for version, seats in (("..1", 10), ("..2", 20)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "apf.yaml").write_text(TEXT.format(seats))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "apf.yaml").symlink_to("..data/apf.yaml")
    changed = threading.Event()
    watcher = Watcher([tmp_path])
    watcher.start(changed.set)
    try:
        assert not changed.wait(0.3)
        (tmp_path / "..tmp").symlink_to("..2")
        (tmp_path / "..tmp").rename(tmp_path / "..data")
        assert changed.wait(60)
    finally:
        watcher.stop()


def test_a_watchers_thread_ends_when_it_is_stopped(watcher: Watcher) -> None:
    watcher.start(lambda: None)
    watcher.start(lambda: None)
    [*all_of_them] = threads()
    watcher.stop()
    for thread in all_of_them:
        thread.join(10)
    assert not any(thread.is_alive() for thread in all_of_them)


def test_directories_are_watched_and_what_links_lead_to(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "etc"
    (real / "deep").mkdir(parents=True)
    link.mkdir()
    (real / "apf.yaml").touch()
    (link / "apf.yaml").symlink_to(real / "apf.yaml")

    assert watched_directories([link / "apf.yaml"]) == ([str(link), str(real)], False)
    assert watched_directories([real]) == ([str(real)], False)
    assert watched_directories([str(real / "*.yaml")]) == ([str(real)], False)
    assert watched_directories([f"{real}/*/apf.yaml"]) == ([str(real)], True)
    assert watched_directories([str(tmp_path / "missing" / "apf.yaml")]) == ([], False)


def test_it_shows_itself(file: Path) -> None:
    assert repr(Watcher([file])) == f"<Watcher of {file}>"
