"""The headers that identify schema and level in a response."""

from apf_middleware.asgi.resolver import ResponseHeaders
from apf_middleware.classification import Classification
from apf_middleware.config.responses import ResponseSettings

PLACE = Classification("anonymous-clients", "anonymous", "10.0.0.0/24", 7)


def test_hidden_names_are_the_same_everywhere() -> None:
    one, other = (ResponseHeaders(ResponseSettings(headers="kubernetes")).of(PLACE) for _ in range(2))

    assert one == other
    assert {name for name, _ in one} == {b"x-kubernetes-pf-flowschema-uid", b"x-kubernetes-pf-prioritylevel-uid"}


def test_no_headers_unless_configured() -> None:
    assert ResponseHeaders(ResponseSettings(headers="none")).of(PLACE) == []
