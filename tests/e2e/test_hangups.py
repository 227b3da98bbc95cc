"""Clients that disconnect while their requests are queued, on every server: none of those requests runs."""

import json
from collections import Counter

import pytest

from benchmarks.hangups import SERVERS, SHAPES, Hangups, count_hangups, main

CLIENTS = 15


@pytest.fixture(scope="module", params=SERVERS)
def ran(request: pytest.FixtureRequest) -> Counter[str]:
    """Return how many requests of disconnected clients ran, by their shape."""
    return Counter({row.shape: row.ran for row in count_hangups(CLIENTS, [request.param])})


@pytest.mark.timeout(90)
@pytest.mark.parametrize("shape", ["get", "post", "parts", "long"])
def test_no_request_runs_whose_client_has_gone(ran: Counter[str], shape: str) -> None:
    assert ran[shape] == 0


def test_a_second_request_of_the_connection_is_not_run_when_a_server_reports_the_hang_up(ran: Counter[str]) -> None:
    """The first one runs where the server doesn't report the disconnect while the second is unread."""
    assert ran["pipelined"] < 2 * CLIENTS


def test_the_command_counts_by_server_and_shape(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(clients: int, servers: list[str], shapes: list[str]) -> list[Hangups]:
        return [Hangups(server, shape, clients, 1) for server in servers for shape in shapes]

    monkeypatch.setattr("benchmarks.hangups.count_hangups", count)
    main(["--json", "--clients", "3", "--servers", "granian", "--shapes", "post", "parts"])
    report = json.loads(capsys.readouterr().out)
    assert report == [{"server": "granian", "shape": shape, "hung_up": 3, "ran": 1} for shape in ("post", "parts")]
    main([])
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(SERVERS) * len(SHAPES)
