"""Configurations written as apf/v1."""

import os
from dataclasses import replace

import pytest

from apf_middleware.classification import Distinguisher, FlowSchema, Source
from apf_middleware.classification.rules import Conjunction
from apf_middleware.config import Configuration, ConfigurationError, load, load_text
from apf_middleware.config.emit import convert, emit
from apf_middleware.config.estimation import ComputedEstimate, EstimationSettings
from apf_middleware.config.merge import Defaults
from apf_middleware.config.problems import Problems
from apf_middleware.config.server import Route


@pytest.mark.parametrize("defaults", ["web", "kubernetes", "none"])
def test_our_own_form_says_everything(defaults: Defaults) -> None:
    configuration = load(defaults=defaults)

    assert load_text(emit(configuration)) == configuration


def test_what_is_told_of_requests_is_written() -> None:
    told = "apiVersion: apf/v1\nkind: Server\nspec: {telemetry: {tracing: true}, responses: {serverTiming: true}}"
    written = emit(load_text(told))

    assert load_text(written) == load_text(told)
    assert "telemetry:\n    tracing: true\n" in written
    assert "responses:\n    serverTiming: true\n" in written
    assert "telemetry" not in emit(load())


def test_a_callable_is_written_by_its_name() -> None:
    base = load(defaults="none")

    def written(distinguisher: Distinguisher) -> str:
        schema = FlowSchema("s", "exempt", 5, (Conjunction(),), distinguisher)
        return emit(Configuration(base.levels, (schema,), base.server))

    assert "callable: builtins:repr" in written(Distinguisher(Source.CALLABLE, function=repr))
    with pytest.raises(ConfigurationError, match=r"<schema s>: error: distinguisher\.callable"):
        written(Distinguisher(Source.CALLABLE, function=lambda digest: digest.path))


def test_a_function_without_a_name_is_an_error_wherever_it_estimates() -> None:
    def nameless(*_: object) -> int:
        return 2

    base = load(defaults="none")
    schema = FlowSchema("s", "exempt", 5, (Conjunction(),))
    computed = ComputedEstimate(nameless)
    routes = (Route("/a", "a"), Route("/b", "b", estimate=computed))
    server = replace(base.server, routes=routes, estimation=EstimationSettings(default=computed, cap=False))
    problems = Problems()
    written = convert(Configuration(base.levels, (schema,), server, {"s": computed}), "apf", problems)

    assert {(one.place.file, one.field) for one in problems.errors} == {
        ("<schema s>", "estimate.callable"),
        ("<server>", "routes[1].estimate.callable"),
        ("<server>", "estimation.default.callable"),
    }
    assert all(one.hint and "imported by its name" in one.rule for one in problems)
    assert "callable" not in written
    assert "cap: false" in written


def test_a_function_with_a_name_is_written_wherever_it_estimates() -> None:
    base = load(defaults="none")
    computed = ComputedEstimate(os.path.getsize)
    server = replace(
        base.server, routes=(Route("/a", "a", estimate=computed),), estimation=EstimationSettings(computed)
    )
    written = emit(Configuration(base.levels, base.schemas, server, {base.schemas[0].name: computed}))

    assert written.count("callable: genericpath:getsize") == 3
    assert load_text(written).server == server
