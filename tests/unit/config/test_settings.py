"""Settings that are declared once: in YAML, in Python, and between the two."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import Field, ValidationError

from apf_middleware.config.settings import (
    Rules,
    Settings,
    Violation,
    adapter_of,
    as_mapping,
    declared_fields,
    key_of,
    path_of,
)
from apf_middleware.config.values import Amount, Nanoseconds, Seconds, Size, TextSet
from apf_middleware.exceptions import InvalidValueError


@dataclass(frozen=True, slots=True)
class Inner(Settings):
    least_s: Seconds = 1
    names: TextSet = ()


@dataclass(frozen=True, slots=True)
class Outer(Settings):
    always_written: ClassVar[frozenset[str]] = frozenset({"state"})
    renamed: ClassVar[Mapping[str, str]] = {"limit": "mostBytes"}

    level: Annotated[int, Field(ge=1, le=9, alias="at")]
    wait_ns: Nanoseconds = 5 * 10**9
    most_bytes: Size | None = None
    max_open: Amount | None = None
    state: str = "on"
    inner: Inner = field(default_factory=Inner)

    def rule_sets(self) -> Iterable[Rules]:
        return (self.rules, self._wait_rules)

    def rules(self) -> Iterator[Violation]:
        if self.most_bytes is not None and self.most_bytes < self.level:
            yield Violation(("most_bytes",), self.most_bytes, "too few")

    def _wait_rules(self) -> Iterator[Violation]:
        if not self.wait_ns:
            yield Violation(("wait_ns",), self.wait_ns, "too short", "Wait")


def read(data: object) -> Outer:
    settings: Outer = adapter_of(Outer).validate_python(data)
    return settings


def violations(data: object) -> set[tuple[Any, ...]]:
    """Return the path and value of each violation in a document, and the path and type of each other error."""
    with pytest.raises(ValidationError) as caught:
        read(data)
    found = set()
    for details in caught.value.errors():
        several = details.get("ctx", {}).get("found")
        if several is None:
            found.add((details["loc"], details["type"]))
        else:
            found |= {((*details["loc"], *one.path), one.value) for one in several}
    return found


def test_what_a_document_says_is_read_by_its_keys() -> None:
    assert read({"at": 3}) == Outer(3)
    given = {"at": 3, "wait": "1m", "mostBytes": "64KiB", "maxOpen": 0, "inner": {"least": "2s", "names": ["a", "b"]}}
    assert read(given) == Outer(3, 60 * 10**9, 65536, 0, inner=Inner(2, ("a", "b")))


def test_what_is_written_are_the_changes_and_what_is_always_written() -> None:
    assert as_mapping(Outer(3)) == {"at": 3, "state": "on"}
    settings = Outer(3, 90 * 10**9, 1024, inner=Inner(names=("a",)))
    written = {"at": 3, "wait": "90s", "mostBytes": "1KiB", "state": "on", "inner": {"names": ["a"]}}
    assert as_mapping(settings) == written
    assert read(written) == settings


def test_in_python_the_first_violation_is_raised() -> None:
    with pytest.raises(InvalidValueError, match="level is 0, but it must be at least 1"):
        Outer(0)
    with pytest.raises(InvalidValueError, match="level is 10, but it must be at most 9"):
        replace(Outer(3), level=10)
    with pytest.raises(InvalidValueError, match="max_open is -1"):
        Outer(3, max_open=-1)
    with pytest.raises(InvalidValueError, match="wait_ns is -1"):
        Outer(3, wait_ns=-1)
    with pytest.raises(InvalidValueError, match=r"wait_ns is 0, but too short\. Wait"):
        Outer(3, wait_ns=0)


def test_in_a_document_all_violations_are_reported_with_keys_and_values() -> None:
    assert violations({"at": 5, "wait": "0s", "mostBytes": "1B"}) == {(("mostBytes",), "1B"), (("wait",), "0s")}


def test_a_field_that_cannot_be_read_stops_only_the_rules_that_read_it() -> None:
    assert violations({"at": "x", "wait": "0s"}) == {(("at",), "int_type"), (("wait",), "0s")}
    assert violations({"at": 0, "wait": "0s"}) == {(("at",), "greater_than_equal"), (("wait",), "0s")}
    assert violations({"wait": "0s"}) == {(("at",), "missing"), (("wait",), "0s")}
    assert violations({"at": 5, "wait": 5, "mostBytes": "1B"}) == {(("wait",), "rule"), (("mostBytes",), "1B")}
    assert violations({"at": 5, "waiy": "0s", "limit": "1B"}) == {
        (("waiy",), "unexpected_keyword_argument"),
        (("limit",), "unexpected_keyword_argument"),
    }
    assert violations({"at": 5, "inner": {"least": "1ms", "names": ["a", "a"]}}) == {
        (("inner", "least"), "rule"),
        (("inner", "names"), "rule"),
    }


@pytest.mark.parametrize("data", [3, "x", [], {"at": 3, "level": 3}, {"at": 3, "wait_ns": "1s"}, {"at": True}])
def test_there_are_no_conversions_and_no_python_names(data: object) -> None:
    with pytest.raises(ValidationError):
        read(data)


def test_keys_are_names_without_units() -> None:
    assert [key_of(name) for name in ("leeway_ns", "least_s", "max_open", "seats")] == [
        "leeway",
        "least",
        "maxOpen",
        "seats",
    ]
    assert path_of("user_headers[0]") == ("userHeaders", 0)
    assert [declared.key for declared in declared_fields(Inner).values()] == ["least", "names"]
