"""The arguments of the middleware are checked before they are used."""

from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry

from apf_middleware.asgi.arguments import (
    check_gates,
    check_inventory,
    check_registry,
    checked_authenticators,
)
from apf_middleware.asgi.identity import FunctionAuthenticator, TokenAuthenticator
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import Gates


def by_api_key(_scope: object) -> None: ...


class Halfway:
    """An authenticator that lacks some of the interface."""

    headers = frozenset[bytes]()

    def authenticate(self, _scope: object) -> None: ...


class Misspelled(Halfway):
    """An authenticator whose headers no request has, so that its first answer would be remembered for all callers."""

    memorable = True

    def __init__(self, headers: Any) -> None:  # noqa: ANN401
        self.headers = headers


@pytest.mark.parametrize("headers", ["x-api-key", b"x-api-key", ["x-api-key"], {b"X-API-Key"}, None])
def test_headers_of_an_authenticator_that_no_request_has_are_refused(headers: object) -> None:
    with pytest.raises(InvalidValueError, match=r"authenticators\[0\]\.headers is .* a set of names in lower case"):
        checked_authenticators([Misspelled(headers)])  # type: ignore[list-item]


def test_authenticators_are_taken_from_any_iterable_in_order() -> None:
    first, second = FunctionAuthenticator(by_api_key), FunctionAuthenticator(by_api_key)

    assert checked_authenticators(one for one in (first, second)) == (first, second)
    assert checked_authenticators(()) == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, r"authenticators is None, but it must be a list of authenticators\. Write \[authenticator\]"),
        (FunctionAuthenticator(by_api_key), r"it must be a list of authenticators"),
        (by_api_key, r"must be a list .* Wrap a function: apf_middleware\.asgi\.identity\.FunctionAuthenticator\("),
        ([by_api_key], r"authenticators\[0\] is <function by_api_key.* no authenticate, .*\. Wrap a function"),
        ([TokenAuthenticator], r"authenticators\[0\] is <class .*, not a class\. Call the class"),
        ([FunctionAuthenticator(by_api_key), Halfway()], r"authenticators\[1\] .*, and has no memorable$"),
        ("key", r"authenticators\[0\] is 'k', but it must be an authenticator"),
    ],
)
def test_other_authenticators_are_refused_with_the_next_step(given: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValueError, match=message):
        checked_authenticators(given)


def test_valid_and_absent_objects_pass() -> None:
    for registry in (None, REGISTRY, CollectorRegistry()):
        check_registry(registry)
    for gates in (None, Gates()):
        check_gates(gates)
    check_inventory(lambda _: None)


@pytest.mark.parametrize("given", [True, CollectorRegistry, "default"])
def test_a_registry_must_be_able_to_register(given: object) -> None:
    with pytest.raises(InvalidValueError, match=r"^registry is .* must be a CollectorRegistry .*at /metrics$"):
        check_registry(given)


@pytest.mark.parametrize("given", [None, {"pods": 3}])
def test_an_inventory_must_be_a_function(given: object) -> None:
    with pytest.raises(InvalidValueError, match=r"^inventory is .*, but it must be a function\. It is called with"):
        check_inventory(given)


@pytest.mark.parametrize("given", [[1], Gates, {"db": 5}])
def test_gates_must_be_gates(given: object) -> None:
    with pytest.raises(InvalidValueError, match=r"^gates is .*, but it must be a Gates object\. Make gates ="):
        check_gates(given)
