"""OpenTelemetry's propagators tell what is known about the current request, beside other baggage."""

from collections.abc import Iterator

import pytest
from multidict import CIMultiDict
from opentelemetry.baggage import set_baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import Setter

from apf_middleware.adapters.criticality import CriticalityHeaders
from apf_middleware.adapters.deadlines import DeadlineHeaders
from apf_middleware.adapters.opentelemetry import RequestPropagator
from apf_middleware.criticality import Criticality
from apf_middleware.propagation.current import CURRENT_CRITICALITY, CURRENT_DEADLINE
from apf_middleware.propagation.time_limits import read_limit

SECOND = 10**9
NOW = 50 * SECOND
WALL = 1_800_000_000 * SECOND


@pytest.fixture(autouse=True)
def request_of_two_seconds() -> Iterator[None]:
    """The current request is batch work that has 2 seconds left."""
    deadline, criticality = CURRENT_DEADLINE.set(NOW + 2 * SECOND), CURRENT_CRITICALITY.set(Criticality.SHEDDABLE_PLUS)
    yield
    CURRENT_DEADLINE.reset(deadline)
    CURRENT_CRITICALITY.reset(criticality)


def propagator() -> CompositePropagator:
    deadlines = DeadlineHeaders({"baggage": "baggage", "x-left": "seconds"}, clock=lambda: NOW, wall=lambda: WALL)
    own = RequestPropagator(deadlines, CriticalityHeaders({"baggage": "baggage"}))
    return CompositePropagator([W3CBaggagePropagator(), own])


EXPECTED = "tenant=7,apf.deadline=1800000002.000,apf.criticality=sheddablePlus"


def test_members_are_added_to_the_baggage() -> None:
    carrier: dict[str, str] = {}
    propagator().inject(carrier, set_baggage("tenant", "7", Context()))

    assert carrier == {"baggage": EXPECTED, "x-left": "2.000"}
    assert read_limit("baggage", carrier["baggage"].encode(), WALL) == 2 * SECOND


def test_stale_members_of_an_incoming_request_are_replaced() -> None:
    carrier: dict[str, str] = {}
    context = set_baggage("apf.deadline", "1700000000", set_baggage("tenant", "7", Context()))
    propagator().inject(carrier, set_baggage("apf.criticality", "critical", context))

    assert carrier["baggage"] == EXPECTED


def test_several_headers_with_baggage_become_one() -> None:
    carrier: CIMultiDict[str] = CIMultiDict([("Baggage", "tenant=7"), ("baggage", "user=3")])
    RequestPropagator(CriticalityHeaders({"baggage": "baggage"})).inject(carrier)

    assert carrier.getall("baggage") == ["tenant=7,user=3,apf.criticality=sheddablePlus"]


def test_a_carrier_that_is_a_list() -> None:
    class Appending(Setter[list[tuple[str, str]]]):
        def set(self, carrier: list[tuple[str, str]], key: str, value: str) -> None:
            carrier[:] = [one for one in carrier if one[0] != key] + [(key, value)]

    carrier: list[tuple[str, str]] = []
    propagator().inject(carrier, set_baggage("tenant", "7", Context()), Appending())

    assert dict(carrier) == {"baggage": EXPECTED, "x-left": "2.000"}


def test_what_is_read_is_the_context_as_it_was() -> None:
    own = RequestPropagator(CriticalityHeaders())
    context = set_baggage("tenant", "7", Context())

    assert own.extract({"x-criticality": "sheddable"}, context) is context
    assert own.extract({}) == {}


def test_the_fields_are_the_names_of_the_headers() -> None:
    assert propagator().fields == {"baggage", "x-left"}
    assert repr(RequestPropagator(CriticalityHeaders())) == "<RequestPropagator <CriticalityHeaders x-criticality>>"
