"""Levels, schemas and the server in apf/v1."""

import pytest

from apf_middleware.config import Level, Queuing, load_text, read_source
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from tests.support.apf_documents import SCHEMA

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
  gates:
  - db
"""


def test_a_level() -> None:
    assert load_text(LEVEL).levels["l"] == Level(
        "l", LevelShares(10), Queuing(8, 2, 4, backfill=2), 2, 5, 5 * SECOND, ("db",)
    )


def test_a_level_of_few_words() -> None:
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
        ("values: [b]", "values: [b], absent: true", 16, "spec.rules[0].httpRules[0].headers[0].absent", "can't have"),
        ("values: [b]", "pattern: '('", 16, "spec.rules[0].httpRules[0].headers[0].pattern", "must be a regex"),
        ("    - user: alice", "    - {}", 10, "spec.rules[0].subjects[0]", "exactly one of"),
        ("    - user: alice", "    - kind: User", 10, "spec.rules[0].subjects[0].kind", "no such key"),
        ("    - user: alice", "      []", 9, "spec.rules[0].subjects", "at least one"),
        (SCHEMA[SCHEMA.index("    httpRules") :], "", 9, "spec.rules[0].httpRules", "must have resourceRules"),
        (SCHEMA[SCHEMA.index("  rules") :], "", 4, "spec.rules", "must have rules or match"),
        ("name: s", "name: catch-all", 4, "spec", "can't be changed"),
    ],
)
def test_what_is_wrong_with_a_schema_is_told(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(SCHEMA.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("waitLimit: 5s", "waitLimit: 5", 8, "spec.waitLimit", "must be text"),
        ("waitLimit: 5s", "waitLimit: 5 s", 8, "spec.waitLimit", "must be a duration"),
        ("waitLimit: 5s", "waitLimit: 99999999h", 8, "spec.waitLimit", "at most a year"),
        ("minSeats: 2", "minSeats: 6", 6, "spec.minSeats", "not exceed maxSeats"),
        ("shares: 10", "type: Exempt", 8, "spec.waitLimit", "exempt level must not"),
        ("shares: 10", "response: Reject", 9, "spec.queuing", "absent where nobody waits"),
        ("- db", "- {type: capacity}", 11, "spec.gates[0]", "must be text"),
        ("- db", "- ''", 11, "spec.gates[0]", "must not be empty"),
        ("shares: 10", "nominalConcurrencyShares: 10", 5, "spec.nominalConcurrencyShares", "no such key"),
        ("handSize: 2", "handSize: 9", 9, "spec.queuing.handSize", "not exceed the 8"),
        ("name: l", "name: exempt", 4, "spec", "must be exempt"),
    ],
)
def test_what_is_wrong_with_a_level_is_told(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(LEVEL.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


def test_names_of_other_formats_are_explained() -> None:
    errors = read_source(SCHEMA.replace("level:", "requestPriority:")).errors

    assert [one.hint for one in errors if one.field == "spec.requestPriority"] == ["Here it is called level"]
