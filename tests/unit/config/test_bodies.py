"""Bodies that are on their way: what a Server document says of them, and what holds when it says nothing."""

import pytest

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.bodies import BodySettings
from apf_middleware.config.emit import emit
from apf_middleware.exceptions import InvalidValueError

SERVER = "apiVersion: apf/v1\nkind: Server\nspec:\n  seats: 7\n"
FULL = (
    "{holdSeats: false, buffer: 1MiB, minRate: 100B, patience: 250ms, maxReceiving: 7, maxBuffered: 1GiB,"
    " anyMethod: true}"
)


def test_a_server_sets_the_rules_for_bodies() -> None:
    assert load_text(f"{SERVER}  bodies: {FULL}").server.bodies == BodySettings(
        hold_seats=False,
        buffer=2**20,
        min_rate=100,
        patience_ns=250_000_000,
        max_receiving=7,
        max_buffered=2**30,
        any_method=True,
    )


@pytest.mark.parametrize(("defaults", "are_on"), [("web", True), ("kubernetes", False), ("none", False)])
def test_slow_clients_hold_no_seats_with_the_web_defaults(defaults: str, *, are_on: bool) -> None:
    server = load_text(f"{SERVER}  defaults: {defaults}").server
    assert server.bodies == BodySettings(hold_seats=not are_on)
    assert server.streams.release_when_blocked_ns == (10**9 if are_on else 0)

    said = "  bodies: {holdSeats: %s}\n  streams: {releaseWhenBlocked: 5s}" % ("true" if are_on else "false")
    server = load_text(f"{SERVER}  defaults: {defaults}\n{said}").server
    assert server.bodies == BodySettings(hold_seats=are_on)
    assert server.streams.release_when_blocked_ns == 5 * 10**9


@pytest.mark.parametrize("defaults", ["web", "kubernetes", "none"])
@pytest.mark.parametrize("bodies", [FULL, "{}", "{holdSeats: true}", "{minRate: 0B}", "{buffer: 1025B}"])
def test_what_is_written_is_read_again(defaults: str, bodies: str) -> None:
    configuration = load_text(f"{SERVER}  defaults: {defaults}\n  bodies: {bodies}")

    assert load_text(emit(configuration)) == configuration


@pytest.mark.parametrize(
    ("bodies", "rule"),
    [
        ("{buffer: 0B}", "buffer.*must be more than zero"),
        ("{buffer: 64MiB}", "must not exceed maxBuffered, which is 32MiB"),
        ("{buffer: 64}", "must be a number of bytes. Write it like 512B"),
        ("{buffer: 64 KiB}", "must be a number of bytes. Write it like 512B, 64KiB or 32MiB"),
        ("{buffer: 64Ki}", "must be a number of bytes"),
        ("{maxBuffered: 999999GiB}", "must be at most 1024GiB"),
        ("{patience: 0s}", "must be more than zero. Write minRate: 0B"),
        ("{maxReceiving: 0}", "greater than or equal to 1|at least 1"),
        ("{bufer: 1KiB}", "buffer"),
    ],
)
def test_what_is_wrong_is_reported(bodies: str, rule: str) -> None:
    with pytest.raises(ConfigurationError, match=rule):
        load_text(f"{SERVER}  bodies: {bodies}")


@pytest.mark.parametrize(
    ("name", "value"), [("buffer", 0), ("min_rate", -1), ("patience_ns", 0), ("max_receiving", 0), ("max_buffered", 5)]
)
def test_settings_check_themselves(name: str, value: int) -> None:
    with pytest.raises(InvalidValueError, match="buffer" if name == "max_buffered" else name):
        BodySettings(**{name: value})  # type: ignore[arg-type]
