"""Which estimator a request has, and the cut by its level."""

import pytest

from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.estimation import (
    ANYTHING,
    STEADY,
    Computed,
    Constant,
    Declared,
    Dependence,
    Estimate,
    Estimation,
    RouteEstimator,
    Trust,
)
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work
from tests.support.digests import SOMEWHERE, asking

OF_ROUTE, OF_SCHEMA, DEFAULT = (Constant(Work(seats)) for seats in (5, 4, 3))


def now(estimation: Estimation, digest: RequestDigest, where: Classification = SOMEWHERE) -> Estimate:
    found = estimation.estimate(digest, where)
    assert isinstance(found, Estimate)
    return found


def test_the_default_estimate_is_one_seat() -> None:
    assert now(Estimation(), asking()) == (Work(1), 1)


def test_the_route_precedes_the_schema_and_the_schema_the_default() -> None:
    routes = [RouteEstimator("/reports/{name}", (), OF_ROUTE)]
    estimation = Estimation(DEFAULT, by_schema={"schema": OF_SCHEMA}, routes=routes)

    assert now(estimation, asking("/reports/q1")).work.seats == 5
    assert now(estimation, asking("/reports")).work.seats == 4
    assert now(estimation, asking("/reports"), Classification("other", "level", "", 0)).work.seats == 3


def test_a_route_may_be_for_some_methods_alone() -> None:
    estimation = Estimation(routes=[RouteEstimator("/reports", ("POST",), OF_ROUTE)])

    assert now(estimation, asking("/reports", method="POST")).work.seats == 5
    assert now(estimation, asking("/reports", method="GET")).work.seats == 1


def test_a_nearer_route_without_an_estimator_leaves_it_to_the_schema() -> None:
    routes = [RouteEstimator("/reports/*", (), OF_ROUTE), RouteEstimator("/reports/ping")]
    estimation = Estimation(by_schema={"schema": OF_SCHEMA}, routes=routes)

    assert now(estimation, asking("/reports/q1")).work.seats == 5
    assert now(estimation, asking("/reports/ping")).work.seats == 4


def test_a_request_is_cut_to_the_cap_of_its_level() -> None:
    estimation = Estimation(OF_ROUTE, caps={"level": 2, "wide": 0})

    found = now(estimation, asking())
    assert (found.work, found.asked) == (Work(2), 5)
    for level in ("wide", "unknown"):
        found = now(estimation, asking(), Classification("schema", level, "", 0))
        assert (found.work, found.asked) == (Work(5), 5)


def test_final_seats_are_cut_too() -> None:
    found = now(Estimation(Constant(Work(1, 6, 10_000_000)), caps={"level": 2}), asking())

    assert (found.work, found.asked) == (Work(1, 2, 30_000_000), 6)


def test_a_choice_can_be_kept_for_requests_like_this_one() -> None:
    estimation = Estimation(Declared("query", "n", Trust(frozenset({"*"}))), caps={"level": 4})
    choice = estimation.choose(asking(), SOMEWHERE)

    assert choice.dependence == Dependence(query=True)
    assert choice.estimate(asking(query={"n": "3"}), SOMEWHERE) == (Work(3), 3)
    assert choice.estimate(asking(query={"n": "9"}), SOMEWHERE) == (Work(4), 9)
    assert "at most 4 seats" in repr(choice)


def test_an_estimate_that_must_be_awaited_is_cut_as_well() -> None:
    async def seats(digest: RequestDigest, classification: Classification) -> int:
        return 7 if (digest.path, classification) == ("/", SOMEWHERE) else 1

    found = Estimation(Computed(seats), caps={"level": 3}).estimate(asking(), SOMEWHERE)
    assert not isinstance(found, Estimate)

    with pytest.raises(StopIteration) as stop:
        next(found.__await__())
    assert stop.value.value == (Work(3), 7)


def test_a_plain_callable_is_an_estimator() -> None:
    assert now(Estimation(lambda digest, _: Work(len(digest.path))), asking("/abc")).work == Work(4)


def test_the_result_of_an_estimator_must_be_work() -> None:
    async def nothing(*_: object) -> None:
        pass

    found = Estimation(nothing).estimate(asking(), SOMEWHERE)  # type: ignore[arg-type]
    assert not isinstance(found, Estimate)

    with pytest.raises(InvalidValueError, match="it must be Work"):
        next(found.__await__())


def test_an_estimation_depends_on_what_any_of_its_estimators_does() -> None:
    trust = Trust(frozenset({"*"}))
    header, query = Declared("header", "a", trust), Declared("query", "b", trust)

    assert Estimation().dependence == STEADY
    assert Estimation(header).dependence == Dependence(frozenset({"a"}))
    assert Estimation(by_schema={"x": query}).dependence == Dependence(query=True)
    routes = [RouteEstimator("/a", (), header), RouteEstimator("/b", (), query), RouteEstimator("/c")]
    assert Estimation(routes=routes).dependence == Dependence(frozenset({"a"}), query=True)
    assert Estimation(routes=[RouteEstimator("/", (), Computed(lambda *_: 1))]).dependence == ANYTHING


def test_two_routes_for_one_path_are_an_error() -> None:
    with pytest.raises(InvalidValueError, match="same paths"):
        Estimation(routes=[RouteEstimator("/a", (), OF_ROUTE), RouteEstimator("/a", (), OF_ROUTE)])


def test_caps_are_not_negative() -> None:
    with pytest.raises(InvalidValueError, match="cap of the level 'level' is -1"):
        Estimation(caps={"level": -1})


def test_an_estimation_shows_what_it_has() -> None:
    routes = [RouteEstimator("/a", (), OF_ROUTE), RouteEstimator("/b")]
    shown = repr(Estimation(by_schema={"x": OF_SCHEMA}, routes=routes))

    assert "1 routes, 1 schemas" in shown
