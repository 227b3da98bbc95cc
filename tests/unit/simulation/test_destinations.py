"""The level and flow of a simulated request."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from apf_middleware.classification.digest import identity_of
from apf_middleware.config import load_text
from apf_middleware.config.estimation import ComputedEstimate, EstimationSettings
from apf_middleware.config.scenario import Scenario
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work, flow_hash
from apf_middleware.simulation import Result, simulate
from apf_middleware.simulation.destinations import DestinationResolver, RecordedPlace, RequestTemplate
from apf_middleware.simulation.run import Simulation
from tests.support.simulated_worlds import LEVEL, POISSON, SERVER, one_level, play, world


def test_the_scenario_sets_the_seats_of_requests_and_the_level_caps_them() -> None:
    wide = "name: t, arrivals: {type: constant, rate: 1}, service: 100ms, seats: 40"
    server = SERVER.format(seats=40, more=", defaults: none, estimation: {cap: %s}")
    for cap, seats in (("true", 40 * 0.15), ("false", 40)):
        level = LEVEL.format(seats=40, wait="1s", queuing="{queues: 4, handSize: 2}")
        result = play("  duration: 20s\n", wide, server=server % cap + level)

        assert result.level("all").seats == pytest.approx(seats * 0.1, rel=0.05)
        assert result.tenants[0].seats == pytest.approx(4, rel=0.05), "the work is the same"


def test_requests_are_classified_as_in_production() -> None:
    configuration = load_text("", defaults="web")
    simulation = Simulation(Scenario(), configuration)
    resolver = DestinationResolver(configuration, simulation.servers[0].controller)

    def level(template: RequestTemplate) -> str:
        return resolver.destination(template).classification.level

    assert level(RequestTemplate(identity_of("alice"), path="/x?y=1&y=2&z")) == "users"
    assert level(RequestTemplate(identity_of(""))) == "anonymous"
    assert level(RequestTemplate(identity_of("", ("odd",)))) == "anonymous"
    assert level(RequestTemplate(identity_of("system:anonymous"), path="/healthz")) == "exempt"
    assert level(RequestTemplate(identity_of(""), path="/health%7a")) == "exempt", "as a server decodes it"
    assert level(RequestTemplate(identity_of(""), path="/healthz%3Fx")) == "anonymous"
    assert resolver.destination(RequestTemplate(identity_of("alice"))).classification.flow == "alice"


def test_requests_have_the_weights_of_production() -> None:
    level = one_level(4, queuing="{queues: exact}")
    text = level.replace("{level: all, ", "{level: all, groupWeights: {gold: 4}, weights: {bob: 0.5}, ")
    configuration = load_text(text)
    simulation = Simulation(world("  duration: 1s\n", POISSON)[0], configuration)
    resolver = DestinationResolver(configuration, simulation.servers[0].controller)

    def weight(user: str, *groups: str) -> float:
        return resolver.destination(RequestTemplate(identity_of(user, groups))).classification.weight

    assert (weight("ann", "gold"), weight("bob"), weight("ann"), weight("bob", "gold")) == (4, 0.5, 1, 4)


async def four_seats(_digest: object, _classification: object) -> Work:
    return Work(4)


async def seats_after_a_while(_digest: object, _classification: object) -> Work:
    await asyncio.sleep(0)
    return Work(4)


def estimated_by(function: Callable[..., Any]) -> Result:
    scenario, configuration = world("  duration: 10s\n", "name: t, arrivals: {type: constant, rate: 1}, service: 100ms")
    estimation = EstimationSettings(default=ComputedEstimate(function), cap=False)
    server = replace(configuration.server, estimation=estimation)
    return simulate(scenario, replace(configuration, server=server))


def test_async_estimators_work_if_they_never_suspend() -> None:
    assert estimated_by(four_seats).level("all").seats == pytest.approx(0.4, rel=0.05)
    with pytest.raises(InvalidValueError, match=r"in virtual time it can't wait\. Set the seats"):
        estimated_by(seats_after_a_while)


@pytest.mark.parametrize(("named", "level"), [("paid", "paid"), ("", "all"), ("nowhere", "all")])
def test_requests_go_to_the_queue_that_they_name(named: str, level: str) -> None:
    text = one_level(4).replace("{level: all, ", "{level: all, queue: {source: header, name: X-Plan}, ")
    text = text.replace("{seats: 4", "{queues: {unknown: notFound}, seats: 4")
    text += "---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: paid}\nspec: {minSeats: 0}\n"
    configuration = load_text(text)
    simulation = Simulation(world("  duration: 1s\n", POISSON)[0], configuration)
    resolver = DestinationResolver(configuration, simulation.servers[0].controller)

    found = resolver.destination(RequestTemplate(identity_of("alice"), headers={"x-plan": named}))

    assert found.runtime.name == found.classification.level == level


def test_recorded_requests_may_keep_their_place_and_their_seats() -> None:
    configuration = load_text("", defaults="web")
    simulation = Simulation(Scenario(), configuration)
    resolver = DestinationResolver(configuration, simulation.servers[0].controller)
    place = RecordedPlace("custom", "users", "~1", 2.5)
    template = RequestTemplate(identity_of("~7"), place=place, final_seats=3, linger_ns=10**9)
    found = resolver.destination(template, 2)

    assert found.classification[:3] == ("custom", "users", "~1")
    assert (found.classification.weight, found.work) == (2.5, Work(2, 3, 10**9))
    assert found.classification.entropy == flow_hash("custom", "~1")

    gone = replace(template, place=place._replace(level="gone"))
    assert resolver.destination(gone, 2).classification.level == "users", "rules decide where there is no such level"
