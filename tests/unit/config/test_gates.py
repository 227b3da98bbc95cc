"""Gates in configurations."""

import pytest

from apf_middleware.classification import Distinguisher, Source
from apf_middleware.config import Configuration, emit, load_text
from apf_middleware.config.gates import GateSettings, TokenBucketSettings
from apf_middleware.config.load import read_source
from tests.support.gate_documents import SERVER


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return load_text(SERVER)


def test_gates_are_read_from_their_documents(configuration: Configuration) -> None:
    db, quota, mail = configuration.server.gates
    assert db == GateSettings(
        "db", 20, per="level", status=502, max_parked=7, release="headers", cost=2, on_error="reject"
    )
    key = Distinguisher(Source.HEADER, "x-shard")
    assert quota == GateSettings("quota", tokens=TokenBucketSettings(0.5, 3), key=key, status=429, cost="seats")
    assert mail == GateSettings("mail", 0)


def test_gates_are_written_as_they_were_read(configuration: Configuration) -> None:
    again = load_text(emit(configuration, "apf"))
    assert again == configuration
    assert again.gates == configuration.gates
    assert again.levels["crowd"].gates == ("db", "quota")
    assert again.server.routes[0].gates == ("mail", "db")


def test_the_owners_of_gates_are_listed(configuration: Configuration) -> None:
    assert {owner: names for owner, names in configuration.gates_by_owner() if names} == {
        "the schema 'orders'": ("quota",),
        "the schema 'probes'": ("quota",),
        "the route '/reports/*'": ("mail", "db"),
        "the level 'crowd'": ("db", "quota"),
    }
    assert configuration.has_gates
    assert "crowd" not in configuration.flowless_levels
    only_level = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: l}\nspec: {response: Reject, gates: [db]}\n"
    assert load_text(only_level).has_gates
    assert "l" not in load_text(only_level).flowless_levels
    assert "l" in load_text(only_level.replace(", gates: [db]", "")).flowless_levels
    assert not load_text("").has_gates


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("cost: 2", "cost: 0", 8, "cost", "at least 1"),
        ("cost: 2", "cost: 21", 8, "cost", "must not exceed the capacity, which is 20, otherwise no request can"),
        ("cost: 2", "cost: many", 8, "cost", "it must be a whole number or 'seats'"),
        ("cost: 2", "cost: 0", 8, "cost", "it must be at least 1"),
        ("onError: reject", "onError: panic", 9, "onError", "'admit', 'reject' or 'backoff'"),
        ("maxParked: 7", "maxParked: 0", 10, "maxParked", "at least 1"),
        ("release: headers", "release: never", 11, "release", "'response' or 'headers'"),
        ("status: 502", "status: 200", 12, "status", "at least 400"),
        ("per: level", "per: user", 13, "per", "'server', 'level', 'schema' or 'flow'"),
        ("per: level", "key: {source: user}\n    per: level", 14, "per", "absent where there is a key"),
        ("capacity: 20", "tokens: {rate: 1, burst: 2}", 11, "release", "never given back"),
        ("    capacity: 20\n", "", 6, "", "exactly one of capacity and tokens"),
        ("capacity: 20", "capacity: -1", 7, "capacity", "at least 0"),
        ("name: mail", "name: db", 15, "gates[2].name", "there is a gate of this name already"),
        ("rate: 0.5", "rate: 0", 14, "tokens.rate", "more than 0"),
        ("cost: seats", "cost: 4", 14, "cost", "must not exceed the burst, which is 3"),
    ],
)
def test_what_is_wrong_with_a_gate_is_reported(old: str, new: str, line: int, field: str, rule: str) -> None:
    assert old in SERVER
    errors = read_source(SERVER.replace(old, new, 1)).errors

    assert any(one.place.line == line and one.field.endswith(field) and rule in one.rule for one in errors), errors
