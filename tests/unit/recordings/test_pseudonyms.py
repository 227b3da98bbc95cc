"""Hashes of names."""

import re

from apf_middleware.recordings import Pseudonyms

KEY = bytes(range(32))


def test_a_name_has_one_hash_under_one_key_and_another_one_under_another() -> None:
    ours, same, other = Pseudonyms(KEY), Pseudonyms(KEY), Pseudonyms(KEY[::-1])

    assert ours.of("alice") == ours.of("alice") == same.of("alice") != other.of("alice")
    assert ours.of("alice") != ours.of("bob")
    assert re.fullmatch("~[0-9a-f]{16}", ours.of("alice"))
    assert "alice" not in repr(ours)


def test_the_empty_name_stays_empty_and_any_text_has_a_hash() -> None:
    hashes = Pseudonyms(KEY)

    assert hashes.of("") == ""
    assert len({hashes.of(name) for name in ("\ud800", "é", "x" * 100_000, "\0")}) == 4


def test_parts_are_spread_evenly_and_always_the_same() -> None:
    hashes = Pseudonyms(KEY)
    parts = [hashes.part_of(str(number)) for number in range(2_000)]

    assert all(0 <= part < 1 for part in parts)
    assert 0.2 < sum(part < 0.25 for part in parts) / len(parts) < 0.3
    assert hashes.part_of("7") == parts[7]
