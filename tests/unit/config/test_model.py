"""Settings that read pure objects and tagged unions."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field, TypeAdapter

from apf_middleware.config import read_source
from apf_middleware.config.files import read_text
from apf_middleware.config.model import BuiltFrom, TaggedUnion, parse
from apf_middleware.config.problems import Problems
from apf_middleware.config.settings import Settings, as_mapping
from apf_middleware.config.values import Nanoseconds, NonEmpty, Texts, TextSet
from apf_middleware.exceptions import require_integer


@dataclass(frozen=True)
class Pure:
    """An object of a package without pydantic."""

    name: str
    size: int = 7

    def __post_init__(self) -> None:
        require_integer("size", self.size, least=2)


@dataclass(frozen=True, slots=True)
class PureSettings(Settings):
    name: NonEmpty
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Steady(Settings):
    kind: Literal["steady"] = field(default="steady", kw_only=True)
    wait_ns: Nanoseconds = 0


@dataclass(frozen=True, slots=True)
class Named(Settings):
    always_written: ClassVar[frozenset[str]] = frozenset({"kind"})
    renamed: ClassVar[dict[str, str]] = {"title": "name"}

    kind: Literal["first", "second"]
    name: NonEmpty
    wait_ns: Nanoseconds = 0


AnyPure = Annotated[Pure, BuiltFrom(PureSettings, Pure)]
AnyKind = Annotated[Steady | Named, TaggedUnion("Kind", "kind", Steady, Named, default="steady")]


@dataclass(frozen=True, slots=True)
class Whole(Settings):
    pure: AnyPure | None = None
    kinds: Annotated[tuple[AnyKind, ...], Field(strict=False)] = ()
    names: TextSet = ()
    lists: Annotated[tuple[Texts, ...], Field(strict=False)] = ()


def read(text: str) -> tuple[Whole | None, list[str]]:
    problems = Problems()
    [document] = read_text(text, "x.yaml", problems)
    found = parse(Whole, document.root.plain(), document, problems)
    return found, [str(problem).partition("error: ")[2] for problem in problems]


def test_a_pure_object_is_read_and_written_by_its_settings() -> None:
    found, problems = read("pure: {name: a}")

    assert (found, problems) == (Whole(Pure("a")), [])
    assert as_mapping(Whole(Pure("a"))) == {"pure": {"name": "a"}}
    assert as_mapping(Pure("a", 9), AnyPure) == {"name": "a", "size": 9}


def test_what_could_not_be_read_has_no_second_problem() -> None:
    _, problems = read("pure: {{ .name }}\nnames: [a, {{ .b }}]\n")

    assert [one.partition(". ")[0] for one in problems] == ["a key must be text, and this one is a mapping"] * 2
    assert read("pure: {name: a, 404: x}\nlists: 5\n")[1] == [
        "a key must be text, and 404 isn't. Write '404', in quotes",
        "lists is 5, but it must be a list. Write lists: [5]",
    ]


def test_what_a_pure_object_refuses_is_reported_at_its_field() -> None:
    assert read("pure: {name: a, size: 1}") == (None, ["pure.size is 1, but it must be at least 2"])
    assert read("pure: {name: ''}") == (None, ["pure.name is '', but it must not be empty"])


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("sre", "Write names: ['sre']"),
        ("'sre, ops'", "Write names: ['sre', 'ops']"),
        ("'*'", "Write names: ['*']"),
        ("''", "Write names: []"),
        (r"/v\d", r"Write names: ['/v\d']"),
        ("5", "Write names: [5]"),
        ("{kind: steady}", "Begin it with '- ', or put it in brackets"),
        ("x" * 1_000, "Write names: ['" + "x" * 78 + "…"),
    ],
)
def test_a_value_where_a_list_must_be_is_told_how_to_write_it(given: str, hint: str) -> None:
    _, [problem] = read(f"names: {given}")

    assert problem.endswith(f", but it must be a list. {hint}")


def test_an_item_that_must_be_a_list_has_no_key() -> None:
    assert read("lists: [[a], b]") == (None, ["lists[1] is 'b', but it must be a list. Write ['b']"])


def test_the_tag_names_the_class() -> None:
    found, problems = read("kinds: [{}, {wait: 1s}, {kind: second, name: x}]")

    assert (found, problems) == (Whole(kinds=(Steady(), Steady(10**9), Named("second", "x"))), [])
    assert as_mapping(found) == {"kinds": [{}, {"wait": "1s"}, {"kind": "second", "name": "x"}]}


def test_errors_of_a_union_name_the_tag() -> None:
    assert read("kinds: [{kind: first}]")[1] == ["kinds[0].name is absent, but the kind first requires it"]
    assert read("kinds: [{name: x}]")[1] == ["kinds[0].name is 'x', but the kind steady doesn't take it. It takes wait"]
    assert read("kinds: [{kind: secnd}]")[1] == [
        "kinds[0].kind is 'secnd', but it must be 'steady', 'first' or 'second'. Did you mean second?"
    ]
    assert read("kinds: [{kind: first, name: x, title: y}]")[1] == [
        "kinds[0].title is 'y', but there is no such key here. Here it is called name"
    ]
    assert read("kinds: [x]")[1] == ["kinds[0] is 'x', but it must be a mapping"]


def test_the_json_schema_of_a_union_is_one_object() -> None:
    schema: dict[str, Any] = TypeAdapter(Whole).json_schema()["$defs"]["Kind"]

    assert schema["properties"].keys() == {"kind", "wait", "name"}
    assert schema["properties"]["kind"]["enum"] == ["steady", "first", "second"]
    assert "required" not in schema


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        ("kind: Server\nseats: 4\nspec: {}", "Write it under spec"),
        ("kind: Server\nspec: {store: host}", "Write it under fleet"),
        ("kind: Server\nspec: {minRate: 1KiB}", "Write it under bodies"),
        ("kind: Server\nspec: {waitLimit: 5s}", "Write it in a document of kind PriorityLevel"),
        ("kind: Server\nspec: {levels: []}", "Write a document of kind PriorityLevel for each"),
        ("kind: Server\nspec: {gates: [{name: db, capacity: 1, burst: 1}]}", "Write it under tokens"),
        ("kind: Server\nspec: {gates: [{name: db, capacity: 1, limit: 10}]}", "Here it is called capacity"),
        ("kind: PriorityLevel\nmetadata: {name: a}\nspec: {queues: exact}", "Write it under queuing"),
        ("kind: PriorityLevel\nmetadata: {name: a}\nspec: {seats: 4}", "Write shares, or minSeats and maxSeats"),
        ("kind: FlowSchema\nmetadata: {name: a}\nspec: {level: users, httpRules: []}", "Write it under rules"),
        ("kind: FlowSchema\nmetadata: {name: a}\nspec: {level: users, paths: [/x]}", "Write it under rules.httpRules"),
        (
            "kind: FlowSchema\nmetadata: {name: a}\nspec: {level: users, rules: [{httpRules: [{}], methods: [GET]}]}",
            "Write it under httpRules",
        ),
    ],
)
def test_a_key_in_the_wrong_place_is_told_the_only_right_one(document: str, hint: str) -> None:
    [error] = read_source(f"apiVersion: apf/v1\n{document}\n").errors
    assert error.hint == hint


@pytest.mark.parametrize("key", ["networks", "header"])
def test_a_key_of_several_parts_is_told_all_keys(key: str) -> None:
    [error] = read_source(f"apiVersion: apf/v1\nkind: Server\nspec: {{{key}: x}}\n").errors
    assert error.hint.startswith("Known keys: admin, authentication, ")


@pytest.mark.parametrize(("given", "without"), [("'50'", "quotes"), ("50%", "%")])
def test_a_text_that_must_be_a_number_is_told_what_to_leave_out(given: str, without: str) -> None:
    text = f"apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: l}}\nspec: {{lendablePercent: {given}}}"

    [error] = read_source(text).errors
    assert error.hint == f"Write it in decimal digits, without {without}"
