"""The services that a request calls learn how much of its time is left."""

import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import httpx2
import pytest

from apf_middleware.adapters.deadlines import DeadlineHeaders
from apf_middleware.exceptions import DeadlineError, InvalidValueError
from apf_middleware.propagation.current import CURRENT_DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 10**9
NOW = 50 * SECOND


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """The current request has 2.5 seconds left."""
    token = CURRENT_DEADLINE.set(NOW + 5 * SECOND // 2)
    yield
    CURRENT_DEADLINE.reset(token)


def headers(**options: float) -> DeadlineHeaders:
    return DeadlineHeaders(
        {"grpc-timeout": "grpc", "x-left": "seconds", "x-until": "timestamp"},
        clock=lambda: NOW,
        wall=lambda: 1_800_000_000 * SECOND,
        **options,
    )


def test_each_header_has_its_format() -> None:
    found = {"grpc-timeout": "2500000u", "x-left": "2.500", "x-until": "1800000002.500"}

    assert headers().headers() == found


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"grpc-timeout": "800m"}, {"grpc-timeout": "800m"}),
        ({"x-left": "1"}, {"x-left": "1"}),
        ({"x-until": "1800000001"}, {"x-until": "1800000001"}),
        ({"grpc-timeout": "3S", "x-left": "9", "x-until": "1800000003"}, {}),
        ({"grpc-timeout": "soon", "x-left": "\u20ac"}, {}),
    ],
)
def test_a_call_may_have_less_time(given: dict[str, str], told: dict[str, str]) -> None:
    assert headers().headers(given) == headers().headers() | told


def test_a_request_without_a_deadline_has_no_headers() -> None:
    assert contextvars.Context().run(headers().headers) == {}


@pytest.mark.parametrize("least", [2.6, 100])
def test_a_call_that_has_too_little_time_is_not_made(least: float) -> None:
    with pytest.raises(DeadlineError, match=f"leaves 2.500 s for a call, which must be at least {least}"):
        headers(least=least).headers()


def test_a_deadline_that_has_passed_leaves_nothing() -> None:
    CURRENT_DEADLINE.set(NOW)
    with pytest.raises(DeadlineError):
        headers(least=0).headers()


def test_wrong_arguments() -> None:
    with pytest.raises(InvalidValueError, match="format of the header 'x-a' is 'hours', but it must be one of grpc"):
        DeadlineHeaders({"x-a": "hours"})  # type: ignore[dict-item]
    with pytest.raises(InvalidValueError, match="least"):
        DeadlineHeaders(least=-1)


def answer(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text=request.headers.get("grpc-timeout", "none"))


def test_a_client_of_httpx_tells_it() -> None:
    hooks: dict[str, list[Callable[..., object]]] = {"request": [headers().tell]}
    with httpx.Client(transport=httpx.MockTransport(answer), event_hooks=hooks) as client:
        assert client.get("http://service/").text == "2500000u"


@pytest.mark.anyio
async def test_a_client_of_httpx2_takes_the_same_hook() -> None:
    hooks: dict[str, list[Callable[..., object]]] = {"request": [headers().tell_async]}
    seen = httpx2.MockTransport(lambda request: httpx2.Response(200, text=request.headers["grpc-timeout"]))
    async with httpx2.AsyncClient(transport=seen, event_hooks=hooks) as client:
        assert (await client.get("http://service/")).text == "2500000u"


@pytest.mark.anyio
async def test_an_asynchronous_client_of_httpx_tells_it() -> None:
    hooks: dict[str, list[Callable[..., object]]] = {"request": [headers().tell_async]}
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), event_hooks=hooks) as client:
        assert (await client.get("http://service/")).text == "2500000u"
