"""What documents say about streams, and what holds where a level says nothing."""

import pytest

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.emit import emit
from apf_middleware.config.streams import ServerStreamSettings, StreamSettings
from apf_middleware.exceptions import InvalidValueError

LEVEL = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: l}\nspec:\n  queuing: {queues: 1, handSize: 1}\n"
SERVER = "apiVersion: apf/v1\nkind: Server\nspec:\n"
MS = 10**6


def level(streams: str) -> StreamSettings:
    return load_text(f"{LEVEL}  streams: {streams}\n").levels["l"].streams


def test_a_level_has_its_own_stream_settings() -> None:
    assert level("{}") == StreamSettings()
    assert level("{releaseAtStart: false, releaseWhenBlocked: 250ms, maxOpen: 9, maxOpenPerFlow: 3}") == StreamSettings(
        release_at_start=False, release_when_blocked_ns=250 * MS, max_open=9, max_open_per_flow=3
    )


def test_a_server_sets_defaults_for_its_levels() -> None:
    server = load_text(f"{SERVER}  streams: {{releaseAtStart: false, releaseWhenBlocked: 1s}}\n").server.streams

    assert server == ServerStreamSettings(release_at_start=False, release_when_blocked_ns=1000 * MS)
    assert load_text(SERVER + "  seats: 5").server.streams == ServerStreamSettings(release_when_blocked_ns=1000 * MS)
    own = StreamSettings(release_at_start=True, release_when_blocked_ns=0, max_open=7)
    assert own.on(server) == own
    assert StreamSettings(max_open=7).on(server) == StreamSettings(False, 1000 * MS, 7)  # noqa: FBT003
    assert StreamSettings().on(ServerStreamSettings()) == StreamSettings(True, 0)  # noqa: FBT003


def test_only_limits_count_as_limits() -> None:
    assert not StreamSettings(release_at_start=False, release_when_blocked_ns=5).is_limited
    assert StreamSettings(max_open=0).is_limited
    assert StreamSettings(max_open_per_flow=0).is_limited


def test_flows_matter_where_their_streams_are_counted() -> None:
    assert "l" in load_text(f"{LEVEL}  streams: {{maxOpen: 5}}").flowless_levels
    assert "l" not in load_text(f"{LEVEL}  streams: {{maxOpenPerFlow: 5}}").flowless_levels


@pytest.mark.parametrize(
    "streams",
    [
        "{releaseAtStart: false}",
        "{releaseAtStart: true}",
        "{releaseWhenBlocked: 0s}",
        "{maxOpen: 0, maxOpenPerFlow: 0}",
    ],
)
def test_what_is_written_is_read_again(streams: str) -> None:
    configuration = load_text(f"{LEVEL}  streams: {streams}\n---\n{SERVER}  streams: {{releaseWhenBlocked: 10ms}}")

    assert load_text(emit(configuration)) == configuration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{LEVEL}  streams: {{maxOpen: 2, maxOpenPerFlow: 3}}", "it must not exceed maxOpen, which is 2"),
        (f"{LEVEL}  streams: {{maxOpen: -1}}", "maxOpen"),
        (f"{LEVEL}  streams: {{releaseWhenBlocked: 5}}", "it must be a duration. Write it like 15s"),
        (f"{LEVEL}  streams: {{limit: 5}}", "maxOpen"),
        (f"{SERVER}  streams: {{maxOpen: 5}}", "streams of a PriorityLevel"),
        (
            LEVEL.replace("  queuing: {queues: 1, handSize: 1}", "  type: Exempt") + "  streams: {maxOpen: 1}",
            "an exempt level must not have it",
        ),
    ],
)
def test_what_is_wrong_is_reported(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        load_text(text)


def test_settings_keep_their_own_rules() -> None:
    with pytest.raises(InvalidValueError, match="max_open_per_flow is 3, but it must not exceed maxOpen, which is 2"):
        StreamSettings(max_open=2, max_open_per_flow=3)
    with pytest.raises(InvalidValueError, match="max_open is -1"):
        StreamSettings(max_open=-1)
    with pytest.raises(InvalidValueError, match="release_when_blocked_ns"):
        ServerStreamSettings(release_when_blocked_ns=-1)
