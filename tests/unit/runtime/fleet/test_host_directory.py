"""Locks show which processes are alive, and one process only begins an epoch."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from apf_middleware.runtime.fleet.host_directory import HostDirectory


@pytest.fixture
def directory(tmp_path: Path) -> HostDirectory:
    return HostDirectory(tmp_path)


def hold(path: Path, epoch: int, answer: Connection) -> None:
    """Register a member, begin an epoch and stay, in a process of its own."""
    directory = HostDirectory(path)
    name = directory.new_name()
    lock = directory.register(name)
    begun = directory.begin_epoch(epoch)
    answer.send((name, lock.path.name, begun is not None))
    signal.pause()


class OtherProcess:
    """Another member, which holds an epoch as well."""

    def __init__(self, path: Path, epoch: int) -> None:
        context = multiprocessing.get_context("spawn")
        mine, its = context.Pipe()
        self.process = context.Process(target=hold, args=(path, epoch, its))
        self.process.start()
        assert mine.poll(60), "the process answers"
        self.name, self.file, self.has_begun = mine.recv()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[OtherProcess]:
    process = OtherProcess(tmp_path, 1)
    yield process
    process.kill()


def test_a_member_is_alive_until_its_lock_is_removed(directory: HostDirectory) -> None:
    name = directory.new_name()
    lock = directory.register(name)
    assert directory.live_members() == {name}
    assert directory.is_alive(name)
    assert name.startswith(f"{os.getpid()}-")
    lock.remove()
    lock.remove()
    assert directory.live_members() == set()
    assert not directory.is_alive(name)
    assert list(directory.directory.iterdir()) == []


def test_a_killed_process_is_not_alive(directory: HostDirectory, other: OtherProcess) -> None:
    assert directory.live_members() == {other.name}
    assert directory.is_held(1)
    other.kill()
    assert not directory.is_alive(other.name)
    assert directory.live_members() == set()
    assert not directory.is_held(1)
    assert directory.latest_epoch() == 1, "its number isn't used again"


def test_one_process_begins_an_epoch(directory: HostDirectory, other: OtherProcess) -> None:
    assert other.has_begun
    assert directory.begin_epoch(1) is None
    assert (directory.latest_epoch(), directory.is_latest(1)) == (1, True)


def test_a_later_epoch_ends_the_earlier_ones(directory: HostDirectory, other: OtherProcess) -> None:
    directory.socket_path(1).touch()
    lock = directory.begin_epoch(2)
    assert lock is not None
    assert (directory.latest_epoch(), directory.is_latest(1), directory.is_latest(2)) == (2, False, True)
    assert sorted(path.name for path in directory.directory.iterdir()) == sorted(["epoch-2", f"member-{other.name}"])
    lock.release()
    assert not directory.is_held(2)
    assert (directory.latest_epoch(), directory.is_latest(2)) == (2, True), "its number isn't used again"


def test_a_new_directory_has_no_epoch(directory: HostDirectory) -> None:
    assert directory.latest_epoch() == 0
    assert not directory.is_held(0)
    (directory.directory / "epoch-x").touch()
    (directory.directory / "epoch-7.sock").touch()
    assert directory.latest_epoch() == 0


FORKING = """
import os, signal, sys, time
from pathlib import Path
from apf_middleware.runtime.fleet.host_directory import HostDirectory
directory = HostDirectory(Path(sys.argv[1]))
name = directory.new_name()
lock = directory.register(name)
if not os.fork():
    print(name, flush=True)
    time.sleep(600)
os.wait()
"""


def test_a_forked_child_doesn_t_keep_the_lock_of_its_parent(directory: HostDirectory) -> None:
    command = [sys.executable, "-c", FORKING, str(directory.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        try:
            assert directory.is_alive(name)
            process.kill()
            process.wait()
            assert not directory.is_alive(name)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_only_files_are_members_and_what_cannot_be_removed_stays(directory: HostDirectory) -> None:
    for name in ("member-1-ab", "epoch-1"):
        (directory.directory / name).mkdir()
    assert directory.live_members() == set()
    lock = directory.begin_epoch(2)
    assert lock is not None
    assert directory.live_members() == set()
    assert (directory.latest_epoch(), directory.is_held(2)) == (2, True)
    lock.release()


def test_an_epoch_is_not_held_if_its_beginning_fails(directory: HostDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> Iterator[Path]:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", fail)
        with pytest.raises(OSError, match="Too many"):
            directory.begin_epoch(1)
    assert not directory.is_held(1)


def test_the_file_of_another_user_counts_as_held(directory: HostDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, who runs tests in containers, may open all files."""
    (directory.directory / "epoch-1").touch()
    (directory.directory / "member-1-ab").touch()

    def refuse(path: Path, *_: int) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert directory.is_held(1)
        assert directory.live_members() == {"1-ab"}
    assert not directory.is_held(1)


def test_a_lock_shows_that_its_file_is_gone_and_renews_it_hourly(directory: HostDirectory) -> None:
    name = directory.new_name()
    lock = directory.register(name)
    os.utime(lock.path, (0, 0))
    lock.renew(5)
    lock.renew(5 + 3600 * 10**9 - 1)
    assert lock.path.stat().st_mtime == 0
    lock.renew(5 + 3600 * 10**9)
    assert lock.path.stat().st_mtime > 0
    with pytest.raises(FileExistsError, match=name):
        directory.register(name)
    found = [lock.is_in_place]
    lock.path.unlink()
    assert [*found, lock.is_in_place] == [True, False]
    again = directory.register(name)
    lock.release()
    assert directory.live_members() == {name}
    again.remove()
    again.renew(10**18)
