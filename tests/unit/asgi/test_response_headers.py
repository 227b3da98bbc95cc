"""The headers that identify schema and level in a response."""

import pytest

from apf_middleware.asgi.response_headers import ResponseHeaders
from apf_middleware.classification import Classification
from apf_middleware.config.responses import ResponseSettings

PLACE = Classification("anonymous-clients", "anonymous", "10.0.0.0/24", 7)


def test_hidden_names_are_the_same_everywhere() -> None:
    one, other = (ResponseHeaders(ResponseSettings(dialect="kubernetes")).of(PLACE) for _ in range(2))

    assert one == other
    assert {name for name, _ in one} == {b"x-kubernetes-pf-flowschema-uid", b"x-kubernetes-pf-prioritylevel-uid"}


def test_no_headers_if_configured_so() -> None:
    headers = ResponseHeaders(ResponseSettings(headers="none", dialect="kubernetes"))

    assert headers.of(PLACE) == []
    assert not headers.are_for_all


@pytest.mark.parametrize(
    ("settings", "is_shown"),
    [
        (ResponseSettings(), False),
        (ResponseSettings(headers="all"), True),
        (ResponseSettings(dialect="kubernetes"), True),
        (ResponseSettings(headers="waited", dialect="kubernetes"), False),
    ],
)
def test_requests_that_are_admitted_at_once_get_headers_only_if_all_do(
    settings: ResponseSettings, *, is_shown: bool
) -> None:
    headers = ResponseHeaders(settings)

    assert headers.of(PLACE)
    assert headers.are_for_all == is_shown
