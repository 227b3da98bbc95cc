"""Members on one host meet, share one budget, and replace an allocator that has gone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest

from apf_middleware.asgi.fleet import fleet_directory
from apf_middleware.config.fleet import FleetSettings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.fleet.frames import framed
from apf_middleware.runtime.fleet.host_directory import HostDirectory
from tests.support.fleet_members import SEATS, BusyProcess, FleetProcess, find_more_seats, running, until, waits

pytestmark = pytest.mark.anyio


class Member(FleetProcess):
    """A member that meets the others in ``directory``."""

    def __init__(self, directory: Path, more: str = "", max_seats: int = SEATS) -> None:
        super().__init__(f"directory: {directory}, interval: 50ms, lease: 600ms{more}", max_seats=max_seats)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


async def test_one_member_gets_all_seats_that_it_needs(directory: Path) -> None:
    member = Member(directory)
    assert member.arrive("early").is_waiting, "it begins with nothing"
    async with running(member):
        admissions = [member.arrive("a") for _ in range(SEATS + 3)]
        await until(lambda: member.in_use == SEATS, member)
        assert waits(admissions) == 4
    assert member.controller.member is None


async def test_two_members_divide_the_seats_by_their_demand(directory: Path) -> None:
    one, two = Member(directory), Member(directory)
    async with running(one, two):
        first = [one.arrive("a") for _ in range(20)]
        await until(lambda: one.in_use == SEATS, one, two)
        for _ in range(20):
            two.arrive("b")
        for admission in first[:SEATS]:
            one.controller.release(admission)
        for _ in range(20):
            running_now = [admission for admission in first if admission.is_seated]
            for admission in running_now:
                one.controller.release(admission)
            await anyio.sleep(0.01)
        await until(lambda: two.in_use == SEATS, one, two)


async def test_the_max_of_a_level_is_that_of_all_members(directory: Path) -> None:
    """Each member is served, and none uses seats beyond the max that nobody else wants."""
    members = [Member(directory, max_seats=3) for _ in range(3)]
    served = dict.fromkeys(members, 0)
    async with running(*members):
        waiting = {member: [member.arrive(f"{number}") for _ in range(20)] for number, member in enumerate(members)}

        def serve() -> bool:
            assert sum(member.in_use for member in members) <= 3
            for member, admissions in waiting.items():
                for admission in [one for one in admissions if one.is_seated]:
                    admissions.remove(admission)
                    member.controller.release(admission)
                    served[member] += 1
            return all(number >= 10 for number in served.values())

        await until(serve, *members)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_seat_moves_within_a_few_turns_of_the_event_loop(directory: Path) -> None:
    one, two, there, back = Member(directory), Member(directory), [], []
    async with running(one, two):
        first = [one.arrive("a") for _ in range(40)]
        await until(lambda: one.in_use == SEATS, one, two)
        for _ in range(5):
            admission = two.arrive("b")
            await until(lambda: one.seats == SEATS - 1, one, two)  # and the request gets a seat when another ends
            running_now = next(other for other in first if other.is_seated)
            first.remove(running_now)
            one.controller.release(running_now)
            there.append(await turns_until(lambda: two.in_use == 1))
            two.controller.release(admission)
            back.append(await turns_until(lambda: one.in_use == SEATS))
    for turns in (there, back):
        assert min(turns) <= 6
        assert max(turns) <= 20, "regular reports of a machine that stalls may be in between"


async def turns_until(condition: Callable[[], bool]) -> int:
    for turn in range(10_000):
        if condition():
            return turn
        await anyio.lowlevel.checkpoint()
    raise AssertionError("it never happens")


async def test_seats_that_one_member_has_to_spare_go_to_the_other(directory: Path) -> None:
    one, two = Member(directory), Member(directory)
    async with running(one, two):
        await until(lambda: one.seats >= 1 and two.seats >= 1, one, two)
        admissions = [two.arrive("b") for _ in range(SEATS - 1)]
        await until(lambda: not waits(admissions), one, two)
        assert one.arrive("a").is_seated, "each member keeps a seat"


async def test_the_seats_of_a_fleet_adapt(directory: Path) -> None:
    fleet = f"directory: {directory}, interval: 50ms, lease: 2s"
    await find_more_seats(BusyProcess(fleet), BusyProcess(fleet))


async def test_a_member_that_leaves_with_requests_is_known_until_its_lease_ends(directory: Path) -> None:
    """Then others have its seats, and the next allocator need not wait for it."""
    fleet = f"directory: {directory}, interval: 50ms, lease: 2s"
    member, other = FleetProcess(fleet), FleetProcess(fleet)
    async with running(other), running(member):
        admission = member.arrive("a")
        await until(lambda: admission.is_seated, member, other)
        meeting = HostDirectory(directory / "fleet-shop")
        assert len(meeting.live_members()) == 2
        member.scope.cancel()
        await until(lambda: member.controller.member is None, other)
        assert len(meeting.live_members()) == 2
        await until(lambda: len(meeting.live_members()) == 1, other)
        assert admission.is_seated


async def test_a_member_that_leaves_gives_its_seats_back_at_once(directory: Path) -> None:
    one, two = Member(directory), Member(directory)
    async with running(one, two):
        first = [one.arrive("a") for _ in range(SEATS)]
        await until(lambda: one.in_use >= SEATS - 1, one, two)
        one.scope.cancel()
        for admission in first:
            one.controller.leave(admission)
        second = [two.arrive("b") for _ in range(SEATS)]
        await until(lambda: not waits(second), two)


async def test_another_member_takes_over_when_the_allocator_has_gone(directory: Path) -> None:
    one, two = Member(directory), Member(directory)
    async with running(one):
        await until(lambda: one.seats >= 1, one)
        assert one.fleet.participant.allocator is not None
        async with running(two):
            await until(lambda: two.seats >= 1, one, two)
            one.scope.cancel()
            admissions = [two.arrive("b") for _ in range(SEATS)]
            await until(lambda: not waits(admissions), two)
            assert two.fleet.participant.allocator is not None
            assert two.fleet.participant.allocator.epoch >= 2


async def test_an_allocator_that_doesn_t_answer_is_replaced(directory: Path) -> None:
    """It is alive and holds its lock, but its event loop is blocked, for example."""
    silent = HostDirectory(fleet_directory(FleetSettings(name="shop", directory=str(directory))))
    silent.directory.mkdir(mode=0o700)
    lock = silent.begin_epoch(1)
    assert lock is not None
    member = Member(directory)
    async with await anyio.create_unix_listener(silent.socket_path(1)), running(member):
        admission = member.arrive("a")
        await until(lambda: admission.is_seated, member)
    assert silent.latest_epoch() >= 2
    lock.release()


async def test_a_member_without_an_allocator_has_its_floor_and_then_returns(directory: Path) -> None:
    one, two = (
        Member(directory, ", fallback: {members: 4, share: 0.5}"),
        Member(directory, ", fallback: {members: 4, share: 0.5}"),
    )
    assert [one.arrive("a").is_seated for _ in range(2)] == [True, False]
    async with running(one, two):
        await until(lambda: one.in_use == 2, one, two)


@pytest.mark.parametrize("sent", [framed(b"nonsense"), framed(b'{"v": 99}'), b"\xff\xff\xff\xff", b"\x00", b""])
async def test_a_peer_that_sends_nonsense_harms_nobody(directory: Path, sent: bytes) -> None:
    member = Member(directory)
    async with running(member):
        await until(lambda: member.seats >= 1, member)
        path = fleet_directory(FleetSettings(name="shop", directory=str(directory))) / "epoch-1.sock"
        async with await anyio.connect_unix(path) as stream:
            await stream.send(sent or b" ")
        admissions = [member.arrive("a") for _ in range(SEATS)]
        await until(lambda: not waits(admissions), member)


@pytest.mark.parametrize(
    ("configured", "environment", "expected"),
    [
        ("/run/shop", {}, "/run/shop/fleet-app"),
        ("", {"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/apf/fleet-app"),
        ("/run/shop", {"APF_RUNTIME_DIR": "/elsewhere"}, "/elsewhere/fleet-app"),
    ],
)
async def test_the_place_where_members_meet(configured: str, environment: Mapping[str, str], expected: str) -> None:
    assert str(fleet_directory(FleetSettings(directory=configured), environment)) == expected


async def test_a_directory_that_others_can_change_is_refused(directory: Path) -> None:
    directory.chmod(0o777)  # noqa: ASYNC240
    with pytest.raises(InvalidValueError, match="other users must not have write access"):
        Member(directory)


async def test_a_server_without_lifespan_is_told_why_it_has_no_seats(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    member = Member(directory)
    for _ in range(3):
        member.fleet.participant.warn_if_absent()
    [record] = caplog.records
    assert "the server sends no lifespan messages" in record.getMessage()
    async with running(member):
        await until(lambda: member.seats >= 1, member)
        member.fleet.participant.warn_if_absent()
    assert sum("lifespan" in record.getMessage() for record in caplog.records) == 1
    for _ in range(3):  # the app has raised an exception, and the server goes on, as uvicorn does
        member.fleet.participant.warn_if_absent()
    assert [record for record in caplog.records if "the lifespan of the app has ended" in record.getMessage()] == [
        caplog.records[-1]
    ]


async def test_without_posix_locks_only_redis_is_a_store(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apf_middleware.asgi.fleet.os", SimpleNamespace(name="nt"))
    with pytest.raises(InvalidValueError, match="Give the URL of a Redis server"):
        Member(directory)
    FleetProcess("store: 'redis://127.0.0.1'")
