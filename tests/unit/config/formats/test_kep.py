"""The KEP's own form, and its example."""

import re
from pathlib import Path

import pytest

from apf_middleware.classification import Distinguisher, FlowSchema, Source
from apf_middleware.classification.rules import AtomicTest as Atom
from apf_middleware.classification.rules import Conjunction, Field, Operator
from apf_middleware.config import Level, Queuing, load, load_text, read_source
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from tests.support.kep_documents import LEVEL, SCHEMA

EXAMPLE = Path(__file__).parents[1] / "data" / "kep-example.yaml"
SEEDS = Path(__file__).parents[5] / "shared" / "seeds"


def test_the_example_means_what_the_proposal_says() -> None:
    configuration = load(EXAMPLE)

    assert configuration.levels == {
        "system-high": Level("system-high", LevelShares(100), Queuing(128, 6, 100)),
        "system-low": Level("system-low", LevelShares(30), Queuing(1, 1, 1000)),
        "system-top": Level("system-top", LevelShares(0, exempt=True)),
        "workload-high": Level("workload-high", LevelShares(30), Queuing(128, 6, 100)),
        "workload-low": Level("workload-low", LevelShares(100), Queuing(128, 6, 100)),
    }
    assert [(one.name, one.level, one.precedence) for one in configuration.schemas] == [
        ("system-low", "system-low", 900),
        ("system-high", "system-high", 1000),
        ("system-top", "system-top", 1000),
        ("workload-high", "workload-high", 1000),
        ("workload-low", "workload-high", 9999),
        ("exempt-backstop", "system-top", 10000),
        ("non-top-backstop", "workload-low", 10000),
    ]
    assert configuration.schemas[3] == FlowSchema(
        "workload-high",
        "workload-high",
        1000,
        (Conjunction((Atom(Field.USER, Operator.PATTERN_MATCH, ("system:serviceaccount:.*",), inverted=True),)),),
        Distinguisher(Source.NAMESPACE),
    )
    assert [len(rule.tests) for rule in configuration.schemas[1].rules if isinstance(rule, Conjunction)] == [2, 2, 3]
    assert (configuration.server.defaults, configuration.server.resolver) == ("none", "kubernetes")


def seed_blocks() -> list[str]:
    files = sorted(SEEDS.glob("003_*.txt")) if SEEDS.is_dir() else []
    if not files:
        pytest.skip(f"the seed documents aren't beside this checkout ({SEEDS})")
    text = files[0].read_text()
    section = text[text.index("### Example Configuration") : text.index("### Reaction to Configuration Changes")]
    return re.findall(r"```(?:yaml)?\n(.*?)```", section, re.DOTALL)


def test_the_seed_loads_as_it_stands() -> None:
    blocks = seed_blocks()
    assert len(blocks) == 11

    reading = read_source("---\n".join(blocks[:-1]))

    assert reading.problems == ()
    assert reading.unwrap() == load(EXAMPLE)


def test_its_last_schema_shares_a_name_and_so_gets_another() -> None:
    reading = read_source("---\n".join(seed_blocks()))
    turned = read_source("---\n".join(reversed(seed_blocks())))

    assert [one.rule for one in reading.errors] == []
    assert len(reading.warnings) == 1
    assert "is called 'system-top-2'" in str(reading.warnings[0])
    assert reading.unwrap() == turned.unwrap()
    assert {"system-top", "system-top-2"} <= {schema.name for schema in reading.unwrap().schemas}


def test_a_distinguisher_may_be_transformed() -> None:
    text = SCHEMA.replace("source: user", "source: user\n    transform: 'system:serviceaccount:([^:]*):.*'")

    [schema] = [one for one in load_text(f"{text}---\n{LEVEL}").schemas if one.name == "s"]

    assert schema.distinguisher == Distinguisher(Source.USER, transform="system:serviceaccount:([^:]*):.*")


EQUALS = "- equals: {field: user, value: alice}"


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("source: user", "source: group", 9, "spec.flowDistinguisher.source", "'user' or 'namespace'"),
        (
            "source: user",
            "source: user\n    transform: a",
            10,
            "spec.flowDistinguisher.transform",
            "one capturing group",
        ),
        ("source: user", "source: user\n    transform: (", 10, "spec.flowDistinguisher.transform", "must be a regex"),
        ("matchingPriority: 500", "matchingPriority: 0", 5, "spec.matchingPriority", "from 1 to 10000"),
        ("matchingPriority", "matchingPrecedence", 5, "spec.matchingPrecedence", "no such key"),
        ("meta:", "metadata:", 1, "apiVersion", "must be one of"),
        (EQUALS, "- like: {field: user}", 12, "spec.match[0].and[0]", "exactly one of"),
        (EQUALS, "- {}", 12, "spec.match[0].and[0]", "exactly one of"),
        (EQUALS, "- equals: alice", 12, "spec.match[0].and[0].equals", "inside"),
        (EQUALS, "- {equals: {field: user, value: a}, field: b}", 12, "spec.match[0].and[0].equals", "inside"),
        (EQUALS, "- equals: {field: user}", 12, "spec.match[0].and[0].equals.value", "equals requires it"),
        (EQUALS, "- equals: {field: user, set: [a]}", 12, "spec.match[0].and[0].equals.set", "takes value instead"),
        (EQUALS, "- equals: {field: usr, value: a}", 12, "spec.match[0].and[0].equals.field", "one of"),
        (EQUALS, "- inSet: {field: user, set: []}", 12, "spec.match[0].and[0].inSet.set", "not be empty"),
        (EQUALS, "- inSet:\n      field: user\n      set: 5", 14, "spec.match[0].and[0].set", "must be a list"),
        (
            EQUALS,
            "- patternMatch: {field: user, pattern: '['}",
            12,
            "spec.match[0].and[0].patternMatch.pattern",
            "regex",
        ),
        (f"  - and:\n    {EQUALS}", "  - and:", 11, "spec.match[0].and", "list of tests"),
        (f"\n  - and:\n    {EQUALS}", "", 10, "spec.match", "required"),
    ],
)
def test_what_is_wrong_with_a_schema_is_reported(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(SCHEMA.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("  queues: 8\n", "", 4, "spec.queues", "required for a level that isn't exempt"),
        ("  handSize: 2\n", "", 4, "spec.handSize", "more than one queue"),
        ("handSize: 2", "handSize: 9", 8, "spec.handSize", "not exceed the 8 queues"),
        ("queueLengthLimit: 5", "queueLengthLimit: 0", 9, "spec.queueLengthLimit", "at least 1"),
        ("catchAll: true", "exempt: true", 6, "spec.assuredConcurrencyShares", "exempt level must not have it"),
        ("Shares: 10", "Shares: -1", 6, "spec.assuredConcurrencyShares", "at least 0"),
        ("catchAll: true", "catchAll: yes", 5, "spec.catchAll", "true or false"),
    ],
)
def test_what_is_wrong_with_a_level_is_reported(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(LEVEL.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


def test_missing_backstops_are_added() -> None:
    bare = load_text(SCHEMA.replace("name: l", "name: workload-low"))
    assert list(bare.levels) == ["system-top", "workload-low"]
    assert [(one.name, one.level) for one in bare.schemas] == [
        ("s", "workload-low"),
        ("exempt-backstop", "system-top"),
        ("non-top-backstop", "workload-low"),
    ]

    flagged = load_text(LEVEL)
    assert [(one.name, one.level) for one in flagged.schemas] == [
        ("exempt-backstop", "system-top"),
        ("non-top-backstop", "l"),
    ]
