"""Levels, schemas and the server in apf/v1."""

import os
from dataclasses import replace

import pytest

from apf_middleware.classification import Distinguisher, FlowSchema, FlowWeights, Source
from apf_middleware.classification.rules import Conjunction
from apf_middleware.config import Configuration, ConfigurationError, Level, Queuing, load, load_text, read_source
from apf_middleware.config.emit import convert, emit
from apf_middleware.config.estimation import ComputedEstimate, EstimationSettings
from apf_middleware.config.merge import Defaults
from apf_middleware.config.problems import Problems
from apf_middleware.config.server import Route
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from tests.support.apf_documents import SCHEMA, schema

SECOND = 10**9

LEVEL = """\
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: l}
spec:
  shares: 10
  minSeats: 2
  maxSeats: 5
  waitLimit: 5s
  queuing: {queues: 8, handSize: 2, queueLengthLimit: 4}
  deadline: 30s
  gates:
  - db
"""


def test_a_level() -> None:
    assert load_text(LEVEL).levels["l"] == Level(
        "l", LevelShares(10), Queuing(8, 2, 4, backfill=2), 2, 5, 5 * SECOND, 30 * SECOND, ("db",)
    )


def test_an_elastic_level_is_read_and_written() -> None:
    text = LEVEL.replace("  gates:\n  - db\n", "  elastic: true\n")

    assert load_text(text).levels["l"].elastic
    assert load_text(text).elastic_levels == {"l"}
    assert load_text(emit(load_text(text))).levels == load_text(text).levels
    [error] = read_source(
        "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: l}\nspec: {type: Exempt, elastic: true}\n"
    ).errors
    assert (error.field, error.rule) == ("spec.elastic", "an exempt level must not have it")


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("type: Exempt, headroom: 20%", "an exempt level must not have it"),
        ("response: Reject, headroom: 20%", "it must be absent where no request waits"),
    ],
)
def test_headroom_needs_queues(spec: str, rule: str) -> None:
    [error] = read_source(f"apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: l}}\nspec: {{{spec}}}\n").errors

    assert (error.field, error.rule) == ("spec.headroom", rule)


def test_a_level_with_defaults() -> None:
    text = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: l}\nspec: {}\n"

    assert load_text(text).levels["l"] == Level("l", LevelShares(30), Queuing(64, 8, 50, backfill=2))
    assert load_text(text.replace("{}", "{response: Reject}")).levels["l"].queuing is None
    assert load_text(text.replace("{}", "{type: Exempt}")).levels["l"].exempt


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("source: user", "source: header", 7, "spec.distinguisher.name", "header requires it"),
        ("source: user", "source: user, name: a", 7, "spec.distinguisher.name", "doesn't take it"),
        ("source: user", "source: user, prefixV4: 8", 7, "spec.distinguisher.prefixV4", "doesn't take it"),
        ("source: user", "source: group, groups: []", 7, "spec.distinguisher.groups", "group requires it"),
        ("source: user", "source: group, groups: ['a*b']", 7, "spec.distinguisher.groups[0]", "only be last"),
        ("precedence: 10", "queue: {source: group}", 6, "spec.queue.groups", "group requires it"),
        ("precedence: 10", "queue: {source: header, name: a b}", 6, "spec.queue.name", "must be a header's name"),
        ("source: user", "source: clientAddress, prefixV4: 33", 7, "spec.distinguisher.prefixV4", "at most 32"),
        ("source: user", "source: tenant", 7, "spec.distinguisher.source", "must be 'user'"),
        ("source: user", "source: user, transform: '(a)(b)'", 7, "spec.distinguisher.transform", "one capturing group"),
        ("source: user", "source: user, transform: '[[a]'", 7, "spec.distinguisher.transform", "nested set"),
        (
            "source: user",
            "source: callable, callable: no.such:f",
            7,
            "spec.distinguisher.callable",
            "can't be imported",
        ),
        ("source: user", "source: callable, callable: 'os:sep'", 7, "spec.distinguisher.callable", "isn't callable"),
        ("precedence: 10", "weight: 0", 6, "spec.weight", "at least 0.01"),
        ("precedence: 10", "weight: 1001", 6, "spec.weight", "at most 1000"),
        ("precedence: 10", "weight: .nan", 6, "spec.weight", "must be a number"),
        ("precedence: 10", "weight: '2'", 6, "spec.weight", "must be a number"),
        ("precedence: 10", "weight: true", 6, "spec.weight", "must be a number"),
        ("precedence: 10", "weights: {a: 2, b: 0}", 6, "spec.weights.b", "at least 0.01"),
        ("precedence: 10", "weights: {'a*b': 2}", 6, "spec.weights.a*b", "only be the last"),
        ("precedence: 10", "weights: [a]", 6, "spec.weights", "must be a mapping"),
        ("precedence: 10", "groupWeights: {'*-gold': 2}", 6, "spec.groupWeights.*-gold", "only be the last"),
        ("precedence: 10", "groupWeights: {'': 2}", 6, "spec.groupWeights", "be the name of a group"),
        ("precedence: 10", "groupWeights: {'plan:gold': x}", 6, "spec.groupWeights.plan:gold", "must be a number"),
        ("precedence: 10", "weightFunction: no.such:f", 6, "spec.weightFunction", "can't be imported"),
        ("precedence: 10", "weightFunction: {callable: 'm:f'}", 6, "spec.weightFunction", "must be text"),
        ("distinguisher: {source: user}", "weights: {a: 2}", 7, "spec.weights", "flows have no names"),
        ("precedence: 10", "precedence: 1", 6, "spec.precedence", "reserved"),
        ("precedence: 10", "precedence: 1.5", 6, "spec.precedence", "whole number"),
        ("precedence", "matchingPrecedence", 6, "spec.matchingPrecedence", "no such key"),
        ("[GET]", "[get]", 12, "spec.rules[0].httpRules[0].methods[0]", "upper case"),
        ("[GET]", "['*']", 12, "spec.rules[0].httpRules[0].methods[0]", "HTTP method"),
        ("[/a]", "[a]", 13, "spec.rules[0].httpRules[0].paths[0]", "begin with /"),
        ("[/a]", "[/a, '/{a}/{a}']", 13, "spec.rules[0].httpRules[0].paths[1]", "name of its own"),
        ("[/a]", "['/a{b}']", 13, "spec.rules[0].httpRules[0].paths[0]", "whole segment"),
        ("[/a]", "[/a//b]", 13, "spec.rules[0].httpRules[0].paths[0]", "'//'"),
        ("[example.com]", "['a.*']", 14, "spec.rules[0].httpRules[0].hosts[0]", "host name"),
        ("name: X-A", "name: X A", 16, "spec.rules[0].httpRules[0].headers[0].name", "header's name"),
        (
            "values: [b]",
            "values: [b], absent: true",
            16,
            "spec.rules[0].httpRules[0].headers[0].absent",
            "be absent and",
        ),
        ("values: [b]", "pattern: '('", 16, "spec.rules[0].httpRules[0].headers[0].pattern", "must be a regex"),
        ("    - user: alice", "    - {}", 10, "spec.rules[0].subjects[0]", "exactly one of"),
        ("    - user: alice", "    - kind: User", 10, "spec.rules[0].subjects[0].kind", "no such key"),
        ("    - user: alice", "      []", 9, "spec.rules[0].subjects", "at least one"),
        (SCHEMA[SCHEMA.index("    httpRules") :], "", 9, "spec.rules[0].httpRules", "must have resourceRules"),
        (SCHEMA[SCHEMA.index("  rules") :], "", 4, "spec.rules", "must have rules or match"),
        ("name: s", "name: catch-all", 3, "metadata.name", "can't be changed"),
    ],
)
def test_what_is_wrong_with_a_schema_is_reported(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(SCHEMA.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


def test_a_module_that_is_not_found_may_be_in_the_working_directory() -> None:
    [missing] = read_source(SCHEMA.replace("source: user", "source: callable, callable: no_such:f", 1)).errors
    [other] = read_source(SCHEMA.replace("source: user", "source: callable, callable: os:no_such", 1)).errors

    assert "PYTHONPATH=." in missing.hint
    assert "PYTHONPATH" not in other.hint


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("waitLimit: 5s", "waitLimit: 5", 8, "spec.waitLimit", "must be a duration"),
        ("waitLimit: 5s", "waitLimit: 5 s", 8, "spec.waitLimit", "must be a duration"),
        ("waitLimit: 5s", "waitLimit: 99999999h", 8, "spec.waitLimit", "at most a year"),
        ("minSeats: 2", "minSeats: 6", 6, "spec.minSeats", "not exceed maxSeats"),
        ("shares: 10", "type: Exempt", 8, "spec.waitLimit", "exempt level must not"),
        ("shares: 10", "response: Reject", 9, "spec.queuing", "absent where no request waits"),
        ("- db", "- {type: capacity}", 12, "spec.gates[0]", "must be text"),
        ("- db", "- ''", 12, "spec.gates[0]", "must not be empty"),
        ("shares: 10", "nominalConcurrencyShares: 10", 5, "spec.nominalConcurrencyShares", "no such key"),
        ("handSize: 2", "handSize: 9", 9, "spec.queuing.handSize", "not exceed the 8"),
        ("name: l", "name: exempt", 3, "metadata.name", "mandatory level must be exempt"),
    ],
)
def test_what_is_wrong_with_a_level_is_reported(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(LEVEL.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


def test_names_of_other_formats_are_explained() -> None:
    errors = read_source(SCHEMA.replace("level:", "requestPriority:")).errors

    assert [one.hint for one in errors if one.field == "spec.requestPriority"] == ["Here it is called level"]


@pytest.mark.parametrize("defaults", ["web", "kubernetes", "none"])
def test_everything_can_be_written(defaults: Defaults) -> None:
    configuration = load(defaults=defaults)

    assert load_text(emit(configuration)) == configuration


def test_telemetry_and_responses_are_written() -> None:
    text = "apiVersion: apf/v1\nkind: Server\nspec: {telemetry: {tracing: true}, responses: {serverTiming: true}}"
    written = emit(load_text(text))

    assert load_text(written) == load_text(text)
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


WEIGHTED = """\
  weight: 2
  weights:
    gold: 4
    tenant-*: 0.5
  groupWeights:
    plan:*: 1000
  weightFunction: builtins:hash
"""


def test_a_schema_with_weights_is_written_as_it_was_read() -> None:
    configuration = load_text(SCHEMA.replace("  rules:", f"{WEIGHTED}  rules:", 1))
    [found] = [schema for schema in configuration.schemas if schema.name == "s"]

    assert found.weights == FlowWeights(2, (("gold", 4), ("tenant-*", 0.5)), (("plan:*", 1000),), function=hash)
    assert WEIGHTED in emit(configuration)
    assert load_text(emit(configuration)) == configuration


def test_a_weight_of_the_flow_without_a_name_is_written_as_it_was_read() -> None:
    configuration = load_text(SCHEMA.replace("  rules:", "  weights: {'': 0.5}\n  rules:", 1))

    assert any(one.weights == FlowWeights(flows=(("", 0.5),)) for one in configuration.schemas)
    assert load_text(emit(configuration)) == configuration


def test_a_schema_with_equal_weights_has_none() -> None:
    assert schema(SCHEMA.replace("precedence: 10", "weight: 1")).weights is None
    assert schema(SCHEMA.replace("precedence: 10", "weight: 1.0\n  weights: {}")).weights is None
    assert "weight" not in emit(load_text(SCHEMA))


def test_a_weight_function_without_a_name_can_not_be_written() -> None:
    base = load(defaults="none")
    weights = FlowWeights(function=lambda digest: len(digest.path))
    nameless = FlowSchema("s", "exempt", 5, (Conjunction(),), weights=weights)

    with pytest.raises(ConfigurationError, match=r"<schema s>: error: weightFunction"):
        emit(Configuration(base.levels, (nameless,), base.server))


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


@pytest.mark.parametrize("part", ["null", "3", "{}", "{and: 3}"])
def test_a_part_of_match_that_is_no_test_has_one_error(part: str) -> None:
    [error] = read_source(f"{SCHEMA}  match: [{part}]\n").errors

    assert error.field.startswith("spec.match[0]")
