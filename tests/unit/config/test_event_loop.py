"""The lag that an event loop may have."""

import pytest

from apf_middleware.config import load_text, read_source
from apf_middleware.config.emit import emit
from apf_middleware.config.event_loop import EventLoopSettings
from apf_middleware.exceptions import InvalidValueError

MS = 10**6
SERVER = "apiVersion: apf/v1\nkind: Server\nspec:\n  eventLoop: %s\n"


@pytest.mark.parametrize(("text", "target"), [("{}", 2 * MS), ("{lagTarget: 10ms}", 10 * MS)])
def test_a_target_is_read_and_written(text: str, target: int) -> None:
    configuration = load_text(SERVER % text)

    assert configuration.server.event_loop == EventLoopSettings(target)
    assert load_text(emit(configuration)).server == configuration.server


def test_without_it_there_is_none() -> None:
    assert load_text("apiVersion: apf/v1\nkind: Server\nspec: {}\n").server.event_loop is None


def test_a_target_below_what_timers_tell_is_an_error() -> None:
    [error] = read_source(SERVER % "{lagTarget: 900us}").errors

    assert (error.place.line, error.field) == (4, "spec.eventLoop.lagTarget")
    assert "exact to a millisecond" in error.rule
    with pytest.raises(InvalidValueError, match="lag_target_ns"):
        EventLoopSettings(MS - 1)
