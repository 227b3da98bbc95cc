"""The services that a request calls learn how critical it is."""

import contextvars
from collections.abc import Iterator

import httpx
import pytest

from apf_middleware.adapters.criticality import CriticalityHeaders
from apf_middleware.criticality import Criticality
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.propagation.current import CURRENT_CRITICALITY


@pytest.fixture(autouse=True)
def batch() -> Iterator[None]:
    """The current request is batch work."""
    token = CURRENT_CRITICALITY.set(Criticality.SHEDDABLE_PLUS)
    yield
    CURRENT_CRITICALITY.reset(token)


def test_each_header_has_its_form() -> None:
    told = CriticalityHeaders({"x-criticality": "name", "priority": "urgency", "baggage": "baggage"})

    assert told.headers() == {
        "x-criticality": "sheddablePlus",
        "priority": "u=5",
        "baggage": "apf.criticality=sheddablePlus",
    }


def test_what_a_call_says_itself_stays() -> None:
    told = CriticalityHeaders({"x-criticality": "name", "baggage": "baggage"})
    present = {"x-criticality": "sheddable", "baggage": "user=7"}

    assert told.headers(present) == {"baggage": "user=7,apf.criticality=sheddablePlus"}


def test_names_of_headers_may_be_in_any_case() -> None:
    told = CriticalityHeaders({"X-Criticality": "name", "Baggage": "baggage"})

    assert told.headers({"x-criticality": "sheddable", "BAGGAGE": "user=7"}) == {
        "baggage": "user=7,apf.criticality=sheddablePlus"
    }


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_baggage_that_is_not_ascii_stays_as_it_is(encoding: str) -> None:
    request = httpx.Request("GET", "http://x/", headers=[(b"baggage", "name=Zoë".encode(encoding))])
    CriticalityHeaders({"baggage": "baggage"}).tell(request)

    assert request.headers.raw[-1] == (b"baggage", "name=Zoë".encode(encoding) + b",apf.criticality=sheddablePlus")


def test_without_a_criticality_nothing_is_told() -> None:
    assert contextvars.Context().run(CriticalityHeaders().headers) == {}


@pytest.mark.anyio
async def test_hooks_of_httpx() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=request.headers.get("x-criticality", "none"))

    told, transport = CriticalityHeaders(), httpx.MockTransport(answer)
    async with httpx.AsyncClient(transport=transport, event_hooks={"request": [told.tell_async]}) as asynchronous:
        assert (await asynchronous.get("http://x/")).text == "sheddablePlus"


def test_the_hook_of_a_client_that_blocks() -> None:
    request = httpx.Request("GET", "http://x/")
    CriticalityHeaders().tell(request)
    assert request.headers["x-criticality"] == "sheddablePlus"


def test_wrong_arguments() -> None:
    with pytest.raises(InvalidValueError, match="format of the header 'x' is 'number', but it must be one of name"):
        CriticalityHeaders({"x": "number"})  # type: ignore[dict-item]
