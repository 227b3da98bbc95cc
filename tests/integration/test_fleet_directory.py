"""The directory in which the members of a host meet loses files, or can't be used for a while."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from apf_middleware.asgi.fleet import fleet_directory
from apf_middleware.config.fleet import FleetSettings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.fleet.host_directory import HostDirectory
from tests.support.fleet_members import SEATS, FleetProcess, running, until, waits

pytestmark = pytest.mark.anyio


class Member(FleetProcess):
    """A member that meets the others in ``directory``."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"directory: {directory}, interval: 50ms, lease: 600ms")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.fixture
def files(directory: Path) -> HostDirectory:
    return HostDirectory(fleet_directory(FleetSettings(name="shop", directory=str(directory))))


def remove_files(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()


def remove_members(path: Path) -> None:
    for file in path.glob("member-*"):
        file.unlink()


@pytest.mark.parametrize("remove", [remove_files, remove_members, shutil.rmtree])
async def test_removed_files_are_made_again_and_the_budget_holds(
    directory: Path, files: HostDirectory, remove: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    one, two = Member(directory), Member(directory)
    async with running(one, two):
        await until(lambda: one.seats >= 1 and two.seats >= 1, one, two)
        first = [one.arrive("a") for _ in range(SEATS)]
        await until(lambda: one.in_use >= SEATS - 1, one, two)
        second = [two.arrive("b") for _ in range(SEATS)]
        known = files.latest_epoch()
        remove(files.directory)
        # the allocator ends if its file is gone
        await until(lambda: len(members_of(files)) == 2 and has_allocator(files), one, two)
        assert files.latest_epoch() > known or remove is remove_members
        for admission in first:
            one.controller.leave(admission)
        await until(lambda: not waits(second), one, two)
    assert 1 <= len([one for one in caplog.records if "apf.fleet-files-removed" in one.getMessage()]) <= 4


def members_of(files: HostDirectory) -> set[str]:
    return files.live_members() if files.directory.is_dir() else set()


def has_allocator(files: HostDirectory) -> bool:
    epoch = files.latest_epoch()
    return files.is_held(epoch) and files.socket_path(epoch).exists()


async def test_an_allocator_that_cannot_be_reached_is_replaced(directory: Path, files: HostDirectory) -> None:
    files.directory.mkdir(mode=0o700)
    lock = files.begin_epoch(1)  # without a socket
    assert lock is not None
    member = Member(directory)
    async with running(member):
        admission = member.arrive("a")
        await until(lambda: admission.is_seated, member)
    assert files.latest_epoch() >= 2
    lock.release()


async def test_a_member_joins_when_the_directory_can_be_used_again(
    directory: Path, files: HostDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    """For example, because the file system was full, or no file descriptor was free."""
    caplog.set_level("INFO")
    member = Member(directory)
    files.directory.rmdir()
    files.directory.touch()
    async with running(member):
        admission = member.arrive("a")
        await until(lambda: sum("apf.fleet-failed" in one.getMessage() for one in caplog.records) == 1, member)
        assert admission.is_waiting
        files.directory.unlink()
        await until(lambda: admission.is_seated, member)
    events = [one.getMessage().split(" ")[0] for one in caplog.records]
    assert (events.count("apf.fleet-failed"), events.count("apf.fleet-joined")) == (1, 2)


async def test_a_directory_with_no_room_for_the_names_of_sockets_is_refused(directory: Path) -> None:
    with pytest.raises(InvalidValueError, match="the path of a socket in it must not be longer than 103 bytes"):
        Member(directory / ("x" * 90))


async def test_a_directory_without_write_access_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, that of another user; root may write everywhere but on a read-only file system."""
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    with pytest.raises(InvalidValueError, match="the server's user must have write access to it"):
        Member(directory)
