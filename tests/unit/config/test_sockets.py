"""Where control sockets are, and which places are safe for them."""

import os
import socket
from pathlib import Path

import pytest

from apf_middleware.config.admin import AdminSettings
from apf_middleware.config.sockets import (
    LONGEST_PATH,
    SocketFile,
    chosen_directory,
    find_sockets,
    is_refused,
    prepare_directory,
    remove_dead,
    require_app,
    require_directory,
    require_safe,
    socket_path,
)
from apf_middleware.exceptions import InvalidValueError


def listening(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def test_the_environment_goes_before_the_configuration_and_without_either_there_is_none() -> None:
    settings = AdminSettings(socket="/run/shop")

    assert chosen_directory(AdminSettings().socket, {}) is None
    assert chosen_directory(settings.socket, {}) == Path("/run/shop")
    assert chosen_directory(settings.socket, {"APF_RUNTIME_DIR": ""}) == Path("/run/shop")
    assert chosen_directory(settings.socket, {"APF_RUNTIME_DIR": "/run/other"}) == Path("/run/other")


@pytest.mark.parametrize("app", ["", "a b", "../x", "a.b", "-a", "x" * 41, "ä"])
def test_a_name_must_be_fit_for_a_file(app: str) -> None:
    with pytest.raises(InvalidValueError, match="letters, digits"):
        require_app(app)


def test_a_path_that_is_too_long_is_reported_with_its_length() -> None:
    room = LONGEST_PATH - len("/.app.4194304.sock_")
    fits = "/" + "d" * (room - 1)

    assert require_directory("socket", fits, "app") == Path(fits)
    with pytest.raises(InvalidValueError, match=f"not be longer than {LONGEST_PATH} bytes, and would have 104"):
        require_directory("socket", fits + "d", "app")
    with pytest.raises(InvalidValueError, match="not be longer"):
        socket_path(Path("/" + "ä" * 50), "app", 1)
    with pytest.raises(InvalidValueError, match="absolute"):
        require_directory("socket", "run", "app")


def test_a_directory_that_is_missing_is_made_for_its_owner_alone(directory: Path) -> None:
    made = directory / "run"
    before = os.umask(0)
    try:
        prepare_directory(made)
    finally:
        os.umask(before)

    assert made.stat().st_mode & 0o777 == 0o700
    prepare_directory(made)
    with pytest.raises(InvalidValueError, match="it is missing and can't be created: no such file or directory"):
        prepare_directory(directory / "no" / "run")


def test_where_others_can_write_no_socket_is_safe(directory: Path) -> None:
    inner = directory / "run"
    inner.mkdir()
    inner.chmod(0o770)
    with pytest.raises(InvalidValueError, match=r"other users must not have write access to .* chmod go-w"):
        require_safe(inner)
    inner.chmod(0o1777)
    with pytest.raises(InvalidValueError, match="Take a directory in it"):
        prepare_directory(inner)
    inner.chmod(0o755)
    require_safe(inner)
    directory.chmod(0o777)
    with pytest.raises(InvalidValueError, match=f"write access to {directory}"):
        require_safe(inner)
    directory.chmod(0o1777)
    require_safe(inner)
    directory.chmod(0o700)


def test_a_link_is_no_directory_and_a_file_is_none(directory: Path) -> None:
    (directory / "real").mkdir()
    (directory / "link").symlink_to("real")
    (directory / "file").write_text("")

    for name in ("link", "file"):
        with pytest.raises(InvalidValueError, match="it must be a directory"):
            require_safe(directory / name)
    with pytest.raises(InvalidValueError, match="there is no such directory"):
        require_safe(directory / "missing")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_can_be_searched_but_not_listened_in(directory: Path) -> None:
    inner = directory / "run"
    inner.mkdir(mode=0o755)
    os.chown(inner, 12345, -1)

    require_safe(inner)
    with pytest.raises(InvalidValueError, match="belong to root or to the server's user"):
        prepare_directory(inner)
    os.chown(directory, 54321, -1)
    with pytest.raises(InvalidValueError, match=f"{directory} must belong to root"):
        require_safe(inner)


def test_only_sockets_by_a_worker_s_name_are_found(directory: Path) -> None:
    with listening(directory / "shop.12.sock"), listening(directory / "shop.3.sock"), listening(directory / "x.4.sock"):
        (directory / "shop.5.sock").write_text("")
        (directory / "shop.6.sock").symlink_to("shop.12.sock")
        (directory / ".shop.7.sock_").write_text("")
        with listening(directory / "shop.sock"):
            assert [one.pid for one in find_sockets(directory, "shop")] == [3, 12]
            assert find_sockets(directory)[-1] == SocketFile("x", 4, directory / "x.4.sock")


def test_what_dead_workers_left_is_removed_and_the_living_stay(directory: Path) -> None:
    listening(directory / "shop.1.sock").close()
    (directory / "notes.txt").write_text("mine")
    with listening(directory / "shop.2.sock"), socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(directory / "shop.3.sock"))
        busy.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for one in waiting:  # who has no time to accept isn't dead
            one.settimeout(0)
            one.connect_ex(str(directory / "shop.3.sock"))
        remove_dead(directory)
        for one in waiting:
            one.close()

        assert sorted(one.name for one in directory.iterdir()) == ["notes.txt", "shop.2.sock", "shop.3.sock"]
        assert not is_refused(directory / "shop.2.sock")


def test_nobody_listens_at_a_socket_that_is_gone(directory: Path) -> None:
    """It was there when the directory was read, and another worker has removed it."""
    assert is_refused(socket_path(directory, "shop", 7))
