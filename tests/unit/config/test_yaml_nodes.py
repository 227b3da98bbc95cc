"""Text to documents: values and their lines, limits, and what YAML 1.1 would have taken for something else."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import pytest

from apf_middleware.config.files import MAX_BYTES, read_text
from apf_middleware.config.problems import Problems
from apf_middleware.config.yaml_nodes import MAX_DEPTH, MAX_DOCUMENTS, MAX_NODES, Document, compose


def read(text: str | bytes, name: str = "f.yaml") -> tuple[list[Document], list[str]]:
    problems = Problems()
    documents = read_text(text, name, problems)
    return documents, [str(problem) for problem in problems]


def plain(text: str) -> object:
    documents, problems = read(text)
    assert problems == []
    return documents[0].root.plain()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("No", "No"),
        ("y", "y"),
        ("0777", "0777"),
        ("017", "017"),
        ("0o17", 15),
        ("0x1f", 31),
        ("0xFFFFFFFF", 2**32 - 1),
        ("0o8", "0o8"),
        ("0xg", "0xg"),
        ("-0x1", "-0x1"),
        ("0X10", "0X10"),
        ("0x" + "f" * 16, "0x" + "f" * 16),
        ("0b1", "0b1"),
        ("'0x10'", "0x10"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-01-02", "2026-01-02"),
        ("9" * 30, int("9" * 30)),
        ("-" + "9" * 99, -int("9" * 99)),
        ("'" + "9" * 101 + "'", "9" * 101),
        ("0" + "9" * 101, "0" + "9" * 101),
        (".inf", ".inf"),
        ("=", "="),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 12", 12),
        ("|\n  a\n  b", "a\nb\n"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    got = plain(f"a: {text}\n")

    assert got == {"a": value}
    assert isinstance(got, Mapping)
    assert type(got["a"]) is type(value)


def test_every_field_has_its_line() -> None:
    [first, second], _ = read("# comment\na:\n  b: 1\n  c:\n  - 1\n  - d: 2\n---\n\nx: y\n")

    assert [first.root.line_of(path) for path in [("a",), ("a", "b"), ("a", "c", 0), ("a", "c", 1, "d")]] == [
        2,
        3,
        5,
        6,
    ]
    assert first.root.line_of(("a", "nothing", "there")) == 2
    assert (second.number, second.place(("x",)).line) == (2, 9)
    assert [path for path, _ in first.root.walk()] == [
        (),
        ("a",),
        ("a", "b"),
        ("a", "c"),
        ("a", "c", 0),
        ("a", "c", 1),
        ("a", "c", 1, "d"),
    ]


def test_aliases_and_merge_keys_are_written_out() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &c {x: 5, z: 3}\none:\n  <<: *b\n  y: 9\ntwo:\n  <<: [*b, *c]\nthree: *b\n"

    assert plain(text) == {
        "base": {"x": 1, "y": 2},
        "more": {"x": 5, "z": 3},
        "one": {"y": 9, "x": 1},
        "two": {"x": 1, "y": 2, "z": 3},
        "three": {"x": 1, "y": 2},
    }


def test_empty_documents_are_none() -> None:
    assert read("---\n---\n# nothing\n---\na: 1\n...\n")[0][0].number == 3
    assert read("")[0] == []


def test_json_may_have_tabs_and_split_characters() -> None:
    documents, problems = read('{\n\t"a": [1,\t"\\ud83d\\udc18"]\n}', "f.json")

    assert problems == []
    assert documents[0].root.plain() == {"a": [1, "🐘"]}


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    return "\n".join(lines)


WRONG = [
    ("a: 1\nb: 2\na: 3\n", "f.yaml:3 (document 1): error: the key 'a' stands here twice, first in line 1"),
    ("x:\n- k: 1\n  k: 1\n", "the key 'k' stands here twice"),
    ("kind: A\nkind: B\n", "first in line 1. Remove one of them, or begin the next object with ---"),
    ("a: !!python/object/apply:os.system [ls]\n", "the tag !!python/object/apply:os.system"),
    ("a: !foo b\n", "the tag !foo"),
    ("a: !!int b\n", "the tag !!int"),
    ("a: !!binary aGk=\n", "the tag !!binary"),
    ("404: a\n", "a key must be text, and 404 isn't. Write '404', in quotes"),
    ("0x10: a\n", "and 0x10 isn't. Write '0x10', in quotes"),
    ("true: a\n", "a key must be text, and true isn't. Write 'true', in quotes"),
    ("? \n: a\n", "a key must be text, and here is none. Write '', in quotes"),
    ("? [a, b]\n: c\n", "a key must be text, and this one is a list"),
    (
        "a: {{ .Values.a }}\n",
        "and this one is a mapping. If {{ … }} is left of a template, such as a Helm chart, render",
    ),
    (
        "a: " + "9" * 5_000,
        "f.yaml:1 (document 1): error: a number must not have more than 100 digits. Put it in quotes",
    ),
    ("a: !!int " + "9" * 5_000, "a number must not have more than 100 digits"),
    ("a:\n\tb: 1\n", "Indent with spaces"),
    ("a: 1\n  b: 2\n", "Indent all keys of a mapping alike"),
    ("a:\n  b: 1\n c: 2\n", "Indent all keys of a mapping alike"),
    ("a: b: c\n", "quote text with ': ' in it"),
    ("a: [1, 2\n", "the text must be YAML"),
    ("a: *b\n", "the alias *b names no anchor"),
    ("a: &b [*b]\n", "the alias *b contains itself"),
    ("a: {<<: 1}\n", "<< takes a mapping"),
    ("a: \x07\n", "the text must be YAML"),
    ("a: é\n" * 9 + "b: 1\x00b\n", "f.yaml:10: error: the text must be YAML, which doesn't allow the character U+0000"),
    ("a: \ud800\n", "the text must be UTF-8"),
    (b"a: 1\nb: \xff\n", "f.yaml:2: error: the text must be UTF-8"),
    ("a: 1\n".encode("utf-16"), "the text must be UTF-8"),
    ('{"a": "\\ud800"}', "the text must be YAML"),
    ("[" * (MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH}"),
    ("[" * 500_000, "nested deeper"),
    ("- " * 300_000, "nested deeper"),
    ("{a: " * 100_000, "nested deeper"),
    ("? " * 100_000, "nested deeper"),
    (bomb(), f"not have more than {MAX_NODES} values"),
    ("- a\n" * (MAX_NODES + 1), f"not have more than {MAX_NODES} values"),
    ("---\na\n" * (MAX_DOCUMENTS + 1), f"not have more than {MAX_DOCUMENTS} documents"),
    ("a" * (MAX_BYTES + 1), f"must not be longer than {MAX_BYTES} bytes"),
    ("a: " + "b" * 10_000_000, "must not be longer"),
]


MOST_CALLS = 5_000_000  # about a second of a processor that is not busy
MOST_SECONDS = 15.0  # of processor time, for what C code does; what grows with the square takes minutes


@contextmanager
def bounded() -> Iterator[None]:
    """Fail after more work than that: calls are the same on a busy machine, seconds are not."""
    calls = 0

    def count(_frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    before, began = sys.getprofile(), time.thread_time()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert calls < MOST_CALLS
    assert time.thread_time() - began < MOST_SECONDS


@pytest.mark.parametrize(("text", "problem"), WRONG, ids=lambda value: repr(value[:30]))
def test_what_is_wrong_is_reported_after_bounded_work(text: str | bytes, problem: str) -> None:
    with bounded():
        _, problems = read(text)

    assert any(problem in one for one in problems), problems


@pytest.mark.parametrize(
    "text", ["a: " + "'" * (MAX_BYTES - 4), '"' + "\\n" * 500_000 + '"', "#" * MAX_BYTES, "a\n" * 500_000]
)
def test_a_megabyte_of_anything_takes_bounded_work(text: str) -> None:
    with bounded():
        read(text)


def test_a_key_that_is_no_text_is_left_out() -> None:
    [document], problems = read("a:\n  404: x\n  b: 1\n  ? [c]\n  : 2\n")

    assert document.root.plain() == {"a": {"b": 1}}
    assert len(problems) == 2


def test_nothing_is_known_of_a_template_or_of_a_number_that_is_too_long() -> None:
    [document], problems = read("a: {{ .x }}\nb:\n- {{ .y }}: 1\n  c: 2\n- " + "9" * 101)

    read_paths = [("a",), ("a", "x"), ("b", 0), ("b", 0, "c"), ("b", 1), ("missing",), ()]
    assert [document.root.is_read(path) for path in read_paths] == [False, False, True, True, False, True, True]
    assert [str(one) for one in document.faults] == problems
    assert read("{{ .x }}\n---\na: 1\n")[0][0].number == 2


def test_faults_belong_to_their_document() -> None:
    documents, problems = read("1: a\n---\nb: 2\n---\nc: 3\nc: 4\n")

    assert [len(document.faults) for document in documents] == [1, 0, 1]
    assert len(problems) == 2


def test_all_duplicates_are_reported() -> None:
    assert len(read("a: 1\na: 2\nb: 1\nb: 2\n")[1]) == 2


def test_what_was_read_before_a_mistake_is_kept() -> None:
    problems = Problems()
    documents = compose("a: 1\n---\nb: [\n", "f", problems)

    assert [document.root.plain() for document in documents] == [{"a": 1}]
    assert repr(problems) == "Problems(1 errors, 0 warnings)"
