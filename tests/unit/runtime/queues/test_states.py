"""Actions in each state of a named queue."""

import pytest

from apf_middleware.exceptions import QueueInvalidError
from tests.support.named_queues import NamedQueueServer, level, server

WEB = level("web", "minSeats: 0, maxSeats: 4")


@pytest.mark.parametrize("wanted", ["open", "pause", "close"])
@pytest.mark.parametrize("before", ["open", "pause", "close"])
@pytest.mark.parametrize("is_busy", [True, False])
def test_every_action_is_possible_in_every_state(before: str, wanted: str, is_busy: bool) -> None:  # noqa: FBT001
    house = NamedQueueServer(server(10) + WEB)
    if is_busy:
        house.arrive("web")
    house.queues.operate("web", before)
    closed = "Closing" if is_busy else "Closed"

    found = house.queues.operate("web", wanted)

    assert found.state == {"open": "Open", "pause": "Paused", "close": closed}[wanted]
    assert house.state("web") == found.state


@pytest.mark.parametrize(("field", "arguments"), [("action", ("shut", "drain")), ("mode", ("close", "kill"))])
def test_an_unknown_action_is_refused_with_the_known_ones(field: str, arguments: tuple[str, str]) -> None:
    house = NamedQueueServer(server(10) + WEB)

    with pytest.raises(QueueInvalidError, match=r"open, close, pause|drain, shed") as caught:
        house.queues.operate("web", arguments[0], mode=arguments[1])

    assert caught.value.fields == (field,)
