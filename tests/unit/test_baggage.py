"""Members of baggage: which are found, and what stays when one is added."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.baggage import add_member, find_members
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"k=1", [b"1"]),
        (b" k = 1 ;property;p=2,z=3", [b"1"]),
        (b"z=3,k=a%20b", [b"a b"]),
        (b"k=", [b""]),
        (b"k", [b""]),
        (b"k=1,z=3,k=2", [b"1", b"2"]),
        (b"kk=1,z=k=2", []),
        (b"", []),
        (b",,", []),
    ],
)
def test_members_are_found(value: bytes, found: list[bytes]) -> None:
    assert find_members(value, "k") == found


def test_a_header_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        find_members(b"k=1," + b"z" * 8192, "k")


def test_of_many_members_the_last_count_because_proxies_add_theirs_at_the_end() -> None:
    assert find_members(b",".join(b"k=%d" % number for number in range(500)), "k") == [
        b"%d" % one for one in range(484, 500)
    ]
    assert find_members(b"k=1," + b"z," * 178 + b"z", "k") == [b"1"]
    assert find_members(b"k=1," + b"z," * 179 + b"z", "k") == []
    assert find_members(b"k=" + b"%41" * 2000, "k")[0].startswith(b"AAA")
    assert len(find_members(b"k=" + b"%41" * 2000, "k")[0]) < 50


def test_other_members_stay_as_they_are() -> None:
    assert add_member("", "k", "1") == "k=1"
    assert add_member("a=1;p=q, k=0;x=y ,,b=%20", "k", "1") == "a=1;p=q,b=%20,k=1"


@pytest.mark.parametrize(("length", "added"), [(8188, ",k=1"), (8189, ""), (9000, "")])
def test_a_member_is_left_out_if_nobody_could_read_the_header(length: int, added: str) -> None:
    others = "a=" + "z" * (length - 2)

    assert add_member(f"{others},k=0", "k", "1") == others + added


def test_the_length_of_a_header_is_counted_in_bytes() -> None:
    assert add_member("a=" + "é" * 4095, "k", "1") == "a=" + "é" * 4095


@examples(200)
@given(st.text("ak=;, %", max_size=40))
def test_an_added_member_is_found_behind_any_others(before: str) -> None:
    after = add_member(before, "k", "7")

    assert find_members(after.encode(), "k") == [b"7"]
    assert add_member(after, "k", "7") == after
