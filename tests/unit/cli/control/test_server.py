"""The server that a command is about, as its options name it."""

import os
from pathlib import Path

import pytest
import typer

from apf_middleware.cli.control.outcomes import Exit
from apf_middleware.cli.control.server import Server, admin_address, find_server
from apf_middleware.cli.control.workers import UrlWorker
from apf_middleware.config.admin import DEFAULT_PATH
from tests.support.socket_workers import socket_worker


def found(directory: Path | None, app: str | None = None, url: str | None = None, token: Path | None = None) -> Server:
    return find_server(directory, app, url, token, 5.0)


def test_the_only_server_in_a_directory_needs_no_name(directory: Path) -> None:
    with socket_worker(directory, b"", 1), socket_worker(directory, b"", 2):
        server = found(directory)
        assert (server.name, [one.name for one in server.workers]) == ("shop", ["1", "2"])
        with socket_worker(directory, b"", 3, "stock"):
            with pytest.raises(typer.BadParameter, match="several servers have sockets there: shop, stock"):
                found(directory)
            assert [one.name for one in found(directory, "stock").workers] == ["3"]
        with socket_worker(directory, b"", 4):
            assert [one.name for one in server.renewed().workers] == ["1", "2", "4"], "and the dead one isn't asked"


def test_sockets_of_dead_workers_reach_no_server(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket_worker(directory, b""):
        pass
    with pytest.raises(typer.Exit) as ended:
        found(directory)

    assert ended.value.exit_code == Exit.UNREACHED
    assert "1 left by workers that have ended" in capsys.readouterr().err
    directory.rename(f"{directory}-gone")
    try:
        assert Server("shop", (), 5.0, directory).renewed().workers == ()
    finally:
        Path(f"{directory}-gone").rename(directory)


def test_a_directory_that_others_can_write_to_is_refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory.chmod(0o777)
    with pytest.raises(typer.Exit), socket_worker(directory, b""):
        found(directory)

    assert "other users must not have write access" in capsys.readouterr().err


def test_a_command_needs_to_know_which_server() -> None:
    with pytest.raises(typer.BadParameter, match="which server"):
        found(None)


@pytest.mark.parametrize(
    "url",
    [
        *("http://a b:80", "http://a\tb", "http://a:80/b c", "http://a/naïve", "http://a\x7f", " http://a"),
        *("http://", "http://:80", "http:/a", "http://.", "http://a..b", f"http://{'a' * 64}", "http://[::1"),
        *("http://a:b", "http://a:0", "http://a:-1", "http://a:99999", "http://a:80:80", "ftp://a", ""),
    ],
)
def test_an_address_that_none_can_have_is_named_with_its_option(url: str) -> None:
    with pytest.raises(typer.BadParameter) as ended:
        found(None, url=url)

    assert repr(url) in ended.value.message
    assert ended.value.param_hint == "--server"


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        *(("http://[::1]", "::1", 80), ("https://[fe80::abcd]", "fe80::abcd", 443), ("http://[::1]:8000", "::1", 8000)),
        *(("http://Shop:", "shop", 80), ("https://münchen.example:8443", "xn--mnchen-3ya.example", 8443)),
    ],
)
def test_hosts_may_be_addresses_or_international_names(url: str, host: str, port: int) -> None:
    [worker] = found(None, url=url).workers
    connection = worker.connect(1.0)

    assert (connection.host, connection.port) == (host, port)
    assert worker.path == DEFAULT_PATH
    assert worker.name.isascii()


def test_a_token_comes_from_a_file_or_the_environment(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = directory / "token"
    file.write_text("from-file\n")
    monkeypatch.setenv("APF_TOKEN", "from-environment")
    url, address = "http://shop:8000", admin_address("http://shop:8000")
    known = {"Authorization": "Bearer from-environment"}
    better = {"Authorization": "Bearer from-file"}

    assert found(None, url=url).workers == (UrlWorker(address, known),)
    assert found(None, url=url, token=file).workers == (UrlWorker(address, better),)
    monkeypatch.delenv("APF_TOKEN")
    assert found(None, url=url).workers == (UrlWorker(address, {}),)
    file.write_text("two\nlines")
    with pytest.raises(typer.BadParameter, match="printable ASCII"):
        found(None, url=url, token=file)
    assert os.environ.get("APF_TOKEN") is None


def test_a_token_file_is_not_read_for_ever() -> None:
    with pytest.raises(typer.BadParameter, match="a token must be printable ASCII"):
        found(None, url="http://127.0.0.1:1", token=Path("/dev/zero"))


def test_credentials_may_be_in_any_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APF_TOKEN", raising=False)
    url, address = "http://shop:8000", admin_address("http://shop:8000")

    server = find_server(None, None, url, None, 5.0, header=["X-API-Key: secret"])
    assert server.workers == (UrlWorker(address, {"X-API-Key": "secret"}),)
    with pytest.raises(typer.BadParameter, match="'X-API-Key' is not NAME:VALUE"):
        find_server(None, None, url, None, 5.0, header=["X-API-Key"])
    for name in ("X API Key", "\u00fc"):
        with pytest.raises(typer.BadParameter, match=f"no header can have the name '{name}'"):
            find_server(None, None, url, None, 5.0, header=[f"{name}: secret"])
    with pytest.raises(typer.BadParameter, match="printable ASCII"):
        find_server(None, None, url, None, 5.0, header=["X-API-Key: two\nlines"])
