"""Estimates from constants, from values that clients declare, and from functions."""

import functools
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from typing import Any

import pytest

from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.estimation import Computed, Constant, Declared, Dependence, Trust
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work
from tests.support.digests import SOMEWHERE, asking, at_once

EVERYBODY = Trust(frozenset({"*"}))
USUAL = Work(2)


def claim(value: str | None, **more: Any) -> int:  # noqa: ANN401 (settings of all kinds)
    estimator = Declared("header", "X-Seats", EVERYBODY, otherwise=USUAL, **more)
    headers = {} if value is None else {"x-seats": value}
    return estimator(asking(headers=headers), SOMEWHERE).seats


def test_a_constant_is_always_the_same_work() -> None:
    work = Work(3, 2, 1000)

    assert Constant(work)(asking(), SOMEWHERE) is work
    assert "seats=3" in repr(Constant(work))


def test_a_constant_must_be_work() -> None:
    with pytest.raises(InvalidValueError, match="it must be Work"):
        Constant(3)  # type: ignore[arg-type]


# Declared values


@pytest.mark.parametrize(("value", "seats"), [("1", 1), ("3", 3), ("0", 1), (" 4\t", 4), ("007", 7), ("10", 10)])
def test_a_trusted_caller_declares_its_seats(value: str, seats: int) -> None:
    assert claim(value) == seats


@pytest.mark.parametrize("value", ["", "-1", "1.5", "x", "1_0", "²", "٣", "1e3", "0x10", "1 2"])
def test_a_value_that_is_not_a_number_counts_as_absent(value: str) -> None:
    assert claim(value) == USUAL.seats


def test_without_a_number_the_default_work_is_used() -> None:
    assert claim(None) == USUAL.seats


def test_a_declared_number_of_seats_is_bounded() -> None:
    assert claim("11") == 10
    assert claim("999999999999999999") == 10
    assert claim("9" * 5000) == 10
    assert claim("0" * 30 + "3") == 3
    assert claim("5", most_seats=4) == 4


@pytest.mark.parametrize(("value", "seats"), [("0", 1), ("1", 1), ("1000", 1), ("1001", 2), ("4000", 4), ("99999", 10)])
def test_several_units_can_make_one_seat(value: str, seats: int) -> None:
    assert claim(value, per_seat=1000) == seats


def test_a_query_parameter_can_declare_seats() -> None:
    estimator = Declared("query", "maxTokens", EVERYBODY)

    assert estimator(asking(query={"maxTokens": "4"}), SOMEWHERE) == Work(4)
    assert estimator(asking(headers={"maxtokens": "4"}), SOMEWHERE) == Work(1)
    assert repr(estimator) == "<Declared by query 'maxTokens': up to 10 seats>"


@pytest.mark.parametrize(
    ("trust", "digest", "believed"),
    [
        (Trust(users=frozenset({"alice"})), asking(user="alice"), True),
        (Trust(users=frozenset({"alice"})), asking(user="bob"), False),
        (Trust(groups=frozenset({"staff"})), asking(user="bob", groups=("x", "staff")), True),
        (Trust(groups=frozenset({"staff"})), asking(user="staff"), False),
        (Trust(networks=(ip_network("10.0.0.0/8"),)), asking(client="10.1.2.3"), True),
        (Trust(networks=(ip_network("10.0.0.0/8"),)), asking(client="::ffff:10.1.2.3"), True),
        (Trust(networks=(ip_network("10.0.0.0/8"),)), asking(client="11.1.2.3"), False),
        (Trust(networks=(ip_network("10.0.0.0/8"),)), asking(client="::1"), False),
        (Trust(networks=(ip_network("10.0.0.0/8"),)), asking(client=""), False),
        (Trust(users=frozenset({"a"}), networks=(ip_network("::/0"),)), asking(client="2001:db8::1"), True),
    ],
)
def test_only_trusted_callers_can_declare_seats(trust: Trust, digest: RequestDigest, believed: bool) -> None:  # noqa: FBT001
    digest.headers = {"x-seats": "7"}
    estimator = Declared("header", "x-seats", trust, otherwise=USUAL)

    assert estimator(digest, SOMEWHERE).seats == (7 if believed else USUAL.seats)


def test_trust_needs_at_least_one_caller() -> None:
    with pytest.raises(InvalidValueError, match="trusted callers must be named"):
        Trust()


def test_a_declared_estimate_depends_on_its_header_or_query() -> None:
    assert Declared("header", "X-Seats", EVERYBODY).dependence == Dependence(frozenset({"x-seats"}))
    assert Declared("query", "n", EVERYBODY).dependence == Dependence(query=True)


@pytest.mark.parametrize(
    ("place", "name", "more", "wrong"),
    [
        ("cookie", "n", {}, "place"),
        ("query", "", {}, "name"),
        ("query", "n", {"per_seat": 0}, "per_seat"),
        ("query", "n", {"most_seats": 0}, "most_seats"),
        ("query", "n", {"most_seats": 10_001}, "most_seats"),
    ],
)
def test_invalid_declared_settings_are_refused(place: Any, name: str, more: dict[str, Any], wrong: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValueError, match=f"^{wrong} is "):
        Declared(place, name, EVERYBODY, **more)


# Functions


def answering(answer: object) -> Callable[[RequestDigest, Classification], Any]:
    return lambda *_: answer


def run(awaitable: object) -> Work:
    """Run a coroutine that never waits to its end."""
    coroutine = awaitable
    assert isinstance(coroutine, Awaitable)
    steps = coroutine.__await__()
    try:
        next(steps)
    except StopIteration as stop:
        return at_once(stop.value)
    raise AssertionError("it waits")


@pytest.mark.parametrize(
    ("answer", "work"),
    [(3, Work(3)), (10, Work(10)), (11, Work(10)), (None, USUAL), (Work(50, 2, 7), Work(50, 2, 7))],
)
def test_a_function_may_return_seats_work_or_none(answer: object, work: Work) -> None:
    assert Computed(answering(answer), otherwise=USUAL)(asking(), SOMEWHERE) == work


@pytest.mark.parametrize("answer", [0, -1, True, 2.0, "3", Work])
def test_an_invalid_result_is_an_error(answer: object) -> None:
    with pytest.raises(InvalidValueError, match=r"the result of .* it must be seats"):
        Computed(answering(answer))(asking(), SOMEWHERE)


def test_the_function_sees_digest_and_classification() -> None:
    def seats(digest: RequestDigest, classification: Classification) -> int:
        return 2 if digest.path == "/x" and classification is SOMEWHERE else 1

    assert Computed(seats)(asking("/x"), SOMEWHERE) == Work(2)


class Object:
    async def __call__(self, *_: object) -> int:
        return 4


async def seats_of(digest: RequestDigest, classification: Classification, seats: int = 4) -> int:
    return seats if (digest.path, classification) == ("/", SOMEWHERE) else 1


def plain(digest: RequestDigest, classification: Classification) -> Awaitable[int]:
    return seats_of(digest, classification)


@pytest.mark.parametrize("function", [seats_of, functools.partial(seats_of, seats=4), Object(), plain])
def test_asynchronous_estimators_are_recognized_by_their_result(function: Callable[..., Any]) -> None:
    assert run(Computed(function)(asking(), SOMEWHERE)) == Work(4)


def test_the_result_of_an_asynchronous_function_is_checked() -> None:
    function = functools.partial(seats_of, seats=-4)

    with pytest.raises(InvalidValueError, match="it must be seats"):
        run(Computed(function)(asking(), SOMEWHERE))


def test_an_exception_of_a_function_is_not_caught() -> None:
    with pytest.raises(ZeroDivisionError):
        Computed(lambda *_: 1 // 0)(asking(), SOMEWHERE)


def test_a_function_must_be_callable() -> None:
    with pytest.raises(InvalidValueError, match="it must be callable"):
        Computed(3)  # type: ignore[arg-type]
    assert "most_seats=10" in repr(Computed(seats_of))
