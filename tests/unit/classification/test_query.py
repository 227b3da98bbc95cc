"""The parameters of a query: found as the parser of the standard library finds them, however many there are."""

from dataclasses import replace
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.classification import FlowSchema, ValueMatch, accepts
from apf_middleware.classification.query import QueryParameters, every_value
from tests.support.rules import PATH, http
from tests.support.schemas import classifier

PLAIN = [b"a", b"A", b"b", b"&", b"=", b"+", b";", b"[", b"]", b".", b" ", b"\xe9", b"%", b"%6", b"%zz"]
ENCODED = [b"%61", b"%26", b"%3d", b"%3D", b"%2b", b"%20", b"%25", b"%c3%A9", b"%C3%a9", b"%E9"]
PIECES = st.sampled_from(PLAIN + ENCODED)
NAMES = st.text(st.sampled_from("aAb é%+&=[].;"), min_size=1, max_size=3)


@given(st.lists(PIECES, max_size=12).map(b"".join), NAMES)
def test_parameters_are_found_as_the_parser_finds_them(raw: bytes, name: str) -> None:
    parsed = parse_qsl(raw.decode("latin-1"), keep_blank_values=True)
    expected = [value for key, value in parsed if key == name]
    parameters = QueryParameters(raw)

    assert parameters.every(name) == expected
    assert parameters.get(name) == (expected[0] if expected else None)
    assert list(parameters) == list(dict.fromkeys(key for key, _ in parsed))
    assert len(parameters) == len(list(parameters))


def test_a_parameter_is_found_behind_any_number_of_others() -> None:
    parameters = QueryParameters(b"x&" * 1000 + b"full=1")

    assert parameters["full"] == "1"
    assert list(parameters) == ["x"]


def test_of_many_values_the_first_and_the_last_ones_count() -> None:
    found = QueryParameters(b"&".join(b"a=%d" % number for number in range(1000))).every("a")

    assert (len(found), found[0], found[31:33], found[-1]) == (64, "0", ["31", "968"], "999")


def test_a_text_may_have_what_a_client_encodes() -> None:
    assert dict(QueryParameters.of_text("a=é b%20c+d&e")) == {"a": "é b c d", "e": ""}


def test_bytes_that_are_not_encoded_are_read_in_both_ways() -> None:
    parameters = QueryParameters("ü=1&a=ü&".encode() + "ü=2&b=ü".encode("latin-1"))

    assert parameters.every("ü") == ["1", "2"]
    assert parameters.every("a") == ["Ã¼", "ü"]
    assert (parameters["a"], parameters.every("b")) == ("Ã¼", ["ü"])


def test_other_mappings_have_one_value() -> None:
    assert every_value({"a": "1"}, "a") == ("1",)
    assert every_value({}, "a") == ()


@pytest.mark.parametrize("raw", [b"full=1", b"full=0&full=1", b"full=1&full=0", b"x&" * 300 + b"full=1", b"f%75ll=%31"])
@pytest.mark.parametrize("match", [ValueMatch("full", ("1",)), ValueMatch("full", pattern="[1-9]")])
def test_no_other_value_evades_a_rule(raw: bytes, match: ValueMatch) -> None:
    rule = http(query=(match,))
    full, light = replace(PATH, query=QueryParameters(raw)), replace(PATH, query=QueryParameters(b"full=0"))
    decide = classifier(FlowSchema("full", "batch", rules=(rule,))).classify

    assert accepts(rule, full)
    assert not accepts(rule, light)
    assert [decide(one).schema for one in (light, full, light)] == ["last", "full", "last"]


def test_a_parameter_is_absent_if_it_has_no_value_at_all() -> None:
    rule = http(query=(ValueMatch("full", absent=True),))

    assert accepts(rule, replace(PATH, query=QueryParameters(b"fully&x=full")))
    assert not accepts(rule, replace(PATH, query=QueryParameters(b"full&full")))
