"""Transports for httpx: the called service learns what is known, and a call doesn't outlast the deadline."""

from collections.abc import Iterator

import httpx
import pytest

from apf_middleware.adapters.criticality import CriticalityHeaders
from apf_middleware.adapters.deadlines import DeadlineHeaders
from apf_middleware.adapters.httpx_calls import AsyncCallTransport, CallTransport
from apf_middleware.criticality import Criticality
from apf_middleware.exceptions import DeadlineError
from apf_middleware.propagation.current import CURRENT_CRITICALITY, CURRENT_DEADLINE

SECOND = 10**9
NOW = 50 * SECOND


@pytest.fixture(autouse=True)
def request_of_two_seconds() -> Iterator[None]:
    """The current request is batch work that has 2 seconds left."""
    deadline, criticality = CURRENT_DEADLINE.set(NOW + 2 * SECOND), CURRENT_CRITICALITY.set(Criticality.SHEDDABLE_PLUS)
    yield
    CURRENT_DEADLINE.reset(deadline)
    CURRENT_CRITICALITY.reset(criticality)


def clock() -> int:
    return NOW


class Recorder:
    """Services that record what they are asked."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.told = DeadlineHeaders({"x-left": "seconds"}, clock=clock), CriticalityHeaders()

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return httpx.Response(200)

    def client(self, **options: float | None) -> httpx.Client:
        transport = CallTransport(*self.told, inner=httpx.MockTransport(self.answer), clock=clock)
        return httpx.Client(transport=transport, timeout=httpx.Timeout(**options))


def test_the_service_learns_what_is_known() -> None:
    recorder = Recorder()
    with recorder.client(timeout=5) as client:
        client.get("http://service/")

    assert recorder.asked[0].headers["x-left"] == "2.000"
    assert recorder.asked[0].headers["x-criticality"] == "sheddablePlus"


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({"timeout": 5}, {"connect": 2, "read": 2, "write": 2, "pool": 2}),
        ({"timeout": None}, {"connect": 2, "read": 2, "write": 2, "pool": 2}),
        ({"timeout": None, "connect": 0.5, "read": 3}, {"connect": 0.5, "read": 2, "write": 2, "pool": 2}),
    ],
)
def test_no_step_takes_longer_than_what_is_left(given: dict[str, float | None], limits: dict[str, float]) -> None:
    recorder = Recorder()
    with recorder.client(**given) as client:
        client.get("http://service/")

    assert recorder.asked[0].extensions["timeout"] == limits


def test_without_a_deadline_the_time_outs_are_the_client_s() -> None:
    CURRENT_DEADLINE.set(None)
    recorder = Recorder()
    with recorder.client(timeout=5) as client:
        client.get("http://service/")

    assert recorder.asked[0].extensions["timeout"] == {"connect": 5, "read": 5, "write": 5, "pool": 5}
    assert "x-left" not in recorder.asked[0].headers


def test_a_call_without_time_is_not_made() -> None:
    CURRENT_DEADLINE.set(NOW)
    recorder = Recorder()
    with recorder.client(timeout=5) as client, pytest.raises(DeadlineError):
        client.get("http://service/")

    assert recorder.asked == []


@pytest.mark.anyio
async def test_an_asynchronous_client() -> None:
    recorder = Recorder()
    transport = AsyncCallTransport(*recorder.told, inner=httpx.MockTransport(recorder.answer), clock=clock)
    async with httpx.AsyncClient(transport=transport, timeout=5) as client:
        await client.get("http://service/")

    assert recorder.asked[0].headers["x-left"] == "2.000"
    assert recorder.asked[0].extensions["timeout"]["read"] == 2


def test_closing_a_client_closes_the_transport_inside() -> None:
    closed = []

    class Inner(httpx.MockTransport):
        def close(self) -> None:
            closed.append(self)

    inner = Inner(Recorder().answer)
    with httpx.Client(transport=CallTransport(inner=inner)):
        pass
    assert closed == [inner]
