"""How headers say how critical a request is."""

import pytest

from apf_middleware.criticality import (
    CRITICALITY_FORMATS,
    Criticality,
    CriticalityFormat,
    read_criticality,
    write_criticality,
)

LEAST, BATCH, USUAL, MOST = Criticality


def test_they_are_ordered_and_have_names() -> None:
    assert LEAST < BATCH < USUAL < MOST
    assert [one.key for one in Criticality] == ["sheddable", "sheddablePlus", "critical", "criticalPlus"]
    assert [Criticality.of(one.key) for one in Criticality] == list(Criticality)


@pytest.mark.parametrize(
    ("written", "value", "found"),
    [
        ("name", b"critical", USUAL),
        ("name", b"SHEDDABLE_PLUS", BATCH),
        ("name", b" Critical-Plus ", MOST),
        ("name", b"sheddable", LEAST),
        ("name", b"criticalPlus, sheddable", LEAST),  # two headers that a proxy has joined
        ("name", b"urgent,,sheddablePlus", BATCH),
        ("urgency", b"u=0", MOST),
        ("urgency", b"u=1, i", MOST),
        ("urgency", b"i, u=3", USUAL),
        ("urgency", b"u=2;x=1", USUAL),
        ("urgency", b"u=5", BATCH),
        ("urgency", b"u=7", LEAST),
        ("urgency", b"i", None),
        ("urgency", b"u=1, u=6, u=3", LEAST),
        ("urgency", b"u=9", None),
        ("urgency", b"uu=1", None),
        ("urgency", b"", None),
        ("baggage", b"apf.criticality=sheddable", LEAST),
        ("baggage", b"user=7, apf.criticality = critical%50lus ;a=b,z=1", MOST),
        ("baggage", b"apf.criticality=criticalPlus,user=7,apf.criticality=sheddable", LEAST),
        ("baggage", b"apf.criticality=urgent,apf.criticality=sheddable", LEAST),
        ("baggage", b"user=7", None),
        ("baggage", b"", None),
    ],
)
def test_what_is_read(written: CriticalityFormat, value: bytes, found: Criticality | None) -> None:
    assert read_criticality(written, value) is found


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("name", b""),
        ("name", b"urgent"),
        ("name", b"2"),
        ("name", b"urgent,"),
        ("name", "kritisch\xe9".encode("latin-1")),
        ("baggage", b"apf.criticality=urgent"),
        ("baggage", b"apf.criticality="),
        ("name", b"critical" * 2000),
    ],
)
def test_what_can_t_be_read(written: CriticalityFormat, value: bytes) -> None:
    with pytest.raises(ValueError, match=r"unknown name|too long"):
        read_criticality(written, value)


@pytest.mark.parametrize(("written", "least", "more"), [("name", b"sheddable", b"a"), ("urgency", b"u=7", b"u=0")])
def test_of_many_claims_in_one_header_the_last_count(written: CriticalityFormat, least: bytes, more: bytes) -> None:
    assert read_criticality(written, b",".join([*[more] * 200, least])) is LEAST
    assert read_criticality(written, b",".join([least, *[more] * 63])) is LEAST
    assert read_criticality(written, b",".join([least, *[b"u=0, criticalPlus"] * 64])) is MOST


@pytest.mark.parametrize("written", CRITICALITY_FORMATS)
@pytest.mark.parametrize("criticality", Criticality)
def test_what_is_written_is_read_again(written: CriticalityFormat, criticality: Criticality) -> None:
    assert read_criticality(written, write_criticality(written, criticality).encode()) is criticality


def test_baggage_keeps_its_other_members() -> None:
    before = "user=7;p=1, apf.criticality=critical,z=1"
    assert write_criticality("baggage", LEAST, before) == "user=7;p=1,z=1,apf.criticality=sheddable"
    assert write_criticality("urgency", USUAL) == "u=3"
