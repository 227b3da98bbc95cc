"""From text to documents: YAML (of which JSON is a part) composed with the line of every field.

Documents may come from attackers, so a text is read as a stream of events, and each event is checked against the limits
below before anything is built from it. PyYAML's composer can't do that: it recurses in C without a bound, and a text of
500,000 opening brackets ends the process.

Plain scalars follow YAML 1.2, also in ``0x10`` and ``0o17``. What 1.1 takes for something else (``yes``, ``1_000``,
``12:30``, dates) stays text, and a field that wants a boolean or a number reports it. ``0777`` stays text too: 1.1 and
1.2 read different numbers.

PyYAML's loader around libyaml is used where it is installed, as its wheels have it; the one in Python reads the same,
some twenty times slower.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import yaml

from apf_middleware.config.problems import Path, Place, Problems

__all__ = ["MAX_DEPTH", "MAX_DOCUMENTS", "MAX_NODES", "Document", "Entry", "Node", "Scalar", "compose"]

MAX_DEPTH: Final = 40
"""Mappings and lists inside each other."""

MAX_NODES: Final = 100_000
"""Values of one file; each use of an alias counts as many as it stands for."""

MAX_DOCUMENTS: Final = 1_000
"""Documents of one file."""

Scalar = str | int | float | bool | None

_LOADER: Final[type] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE: Final = "tag:yaml.org,2002:"
_HALF: Final = re.compile("[\ud800-\udfff]")
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]{0,18})")
_RADIX: Final = re.compile(r"0x[0-9a-fA-F]{1,15}|0o[0-7]{1,20}")
_FLOAT: Final = re.compile(r"[-+]?(0|[1-9][0-9]{0,18})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?")
_WORDS: Final[Mapping[str, bool | None]] = (
    dict.fromkeys(("", "~", "null", "Null", "NULL"))
    | dict.fromkeys(("true", "True", "TRUE"), True)
    | dict.fromkeys(("false", "False", "FALSE"), False)
)


class Entry(NamedTuple):
    """A mapping's value, and the line of its key."""

    line: int
    node: "Node"


@dataclass(frozen=True, slots=True)
class Node:
    """A value and the line where it begins."""

    line: int
    value: Scalar | tuple["Node", ...] | Mapping[str, Entry]

    def plain(self) -> object:
        """Return the value without its lines."""
        if isinstance(self.value, Mapping):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def line_of(self, path: Path) -> int:
        """Return the line of the field there, or of its closest parent."""
        node, line = self, self.line
        for step in path:
            if isinstance(node.value, Mapping) and isinstance(step, str) and step in node.value:
                line, node = node.value[step]
            elif isinstance(node.value, tuple) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.line
            else:
                break
        return line

    def get(self, key: str) -> "Node | None":
        """Return the value of a key; None if this is no mapping or has no such key."""
        return self.value[key].node if isinstance(self.value, Mapping) and key in self.value else None


@dataclass(frozen=True, slots=True)
class Document:
    """One object; ``base`` is where in the file's document it stands, if that is a list of objects."""

    file: str
    number: int
    root: Node
    base: Path = ()

    def place(self, path: Path = ()) -> Place:
        return Place(self.file, self.number, self.root.line_of(path))


class _UnreadableError(Exception):
    """A limit or the syntax is broken, so nothing more can be read from this file."""

    def __init__(self, line: int, rule: str, hint: str = "") -> None:
        super().__init__(rule)
        self.line = line
        self.rule = rule
        self.hint = hint


class _OpenCollection:
    """A mapping or list whose end has not been read yet."""

    __slots__ = ("anchor", "entries", "items", "key", "line", "merged", "weight")

    def __init__(self, line: int, anchor: str | None, *, mapping: bool) -> None:
        self.line = line
        self.anchor = anchor
        self.weight = 1
        self.items: list[Node] = []
        self.entries: dict[str, Entry] | None = {} if mapping else None
        self.key: tuple[str, int] | None = None  # of the value that comes next
        self.merged: list[Node] = []  # what << brings in

    def closed(self) -> Node:
        if self.entries is None:
            return Node(self.line, tuple(self.items))
        for node in self.merged:
            if isinstance(node.value, Mapping):
                for key, entry in node.value.items():
                    self.entries.setdefault(key, entry)
        return Node(self.line, self.entries)


class _Composer:
    """Composes one file's events to documents, and keeps the limits."""

    def __init__(self, file: str, problems: Problems) -> None:
        self.file = file
        self.problems = problems
        self.number = 0
        self.nodes = 0
        self.root: Node | None = None
        self.open: list[_OpenCollection] = []
        self.anchors: dict[str, tuple[Node, int] | None] = {}  # with weight; None while it is still open

    def documents(self, text: str) -> Iterator[Document]:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                self.number += 1
                self.anchors = {}
                self.root = None
                if self.number > MAX_DOCUMENTS:
                    raise _UnreadableError(_line(event), f"a file must not have more than {MAX_DOCUMENTS} documents")
            elif isinstance(event, yaml.DocumentEndEvent):
                if self.root is not None and self.root.value is not None:
                    yield Document(self.file, self.number, self.root)
            elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                self.take(event)

    def take(self, event: yaml.Event) -> None:
        line = _line(event)
        if isinstance(event, yaml.CollectionStartEvent):
            mapping = isinstance(event, yaml.MappingStartEvent)
            if event.tag not in (None, "!", f"{_CORE}map" if mapping else f"{_CORE}seq"):
                self.report_tag(line, event.tag)
            if len(self.open) >= MAX_DEPTH:
                raise _UnreadableError(line, f"values must not be nested deeper than {MAX_DEPTH}")
            if event.anchor is not None:
                self.anchors[event.anchor] = None
            self.count(line, 1)
            self.open.append(_OpenCollection(line, event.anchor, mapping=mapping))
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = self.open.pop()
            self.put(ended.closed(), ended.weight, ended.anchor)
        elif isinstance(event, yaml.AliasEvent):
            node, weight = self.resolved(line, str(event.anchor))
            self.count(line, weight)
            self.put(node, weight, None)
        elif isinstance(event, yaml.ScalarEvent):
            self.count(line, 1)
            value, plain = self.scalar(line, event)
            merge = plain and value == "<<"
            self.put(Node(line, value), 1, event.anchor, merge=merge)

    def count(self, line: int, weight: int) -> None:
        self.nodes += weight
        if self.nodes > MAX_NODES:
            hint = "Take fewer aliases, or several files"
            raise _UnreadableError(
                line, f"a file must not have more than {MAX_NODES} values, aliases written out", hint
            )

    def resolved(self, line: int, anchor: str) -> tuple[Node, int]:
        known = self.anchors.get(anchor)
        if known is None:
            rule = "contains itself" if anchor in self.anchors else "names no anchor before it"
            raise _UnreadableError(line, f"the alias *{anchor} {rule}")
        return known

    def scalar(self, line: int, event: yaml.ScalarEvent) -> tuple[Scalar, bool]:
        if _HALF.search(event.value):  # libyaml refuses it itself
            raise _UnreadableError(line, "the text must be YAML: half of a character (a surrogate) stands alone")
        if event.tag in ("!", f"{_CORE}str"):
            return event.value, False
        if event.tag is not None:
            value = _plain(event.value)
            names = {bool: "bool", int: "int", float: "float", type(None): "null", str: ""}
            if event.tag != _CORE + names[type(value)]:
                self.report_tag(line, event.tag)
            return value, False
        plain = bool(event.implicit[0])
        return (_plain(event.value) if plain else event.value), plain

    def report_tag(self, line: int, tag: str) -> None:
        shown = tag.replace(_CORE, "!!")[:60]
        self.error(line, f"the tag {shown} doesn't suit this value or isn't known", "Remove the tag")

    def put(self, node: Node, weight: int, anchor: str | None, *, merge: bool = False) -> None:
        """Add a value to the collection that is open, or make it the document's root."""
        if anchor is not None:
            self.anchors[anchor] = (node, weight)
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        parent.weight += weight
        if parent.entries is None:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = self.key(parent, node, merge=merge)
        else:
            self.enter(parent, *parent.key, node)
            parent.key = None

    def key(self, parent: _OpenCollection, node: Node, *, merge: bool) -> tuple[str, int]:
        key = node.value
        if merge:
            return "<<", 0
        if not isinstance(key, str):
            self.error(node.line, "a key must be text", "Put it in quotes" if not isinstance(key, tuple | dict) else "")
        elif parent.entries and key in parent.entries:
            self.error(
                node.line,
                f"the key {key[:60]!r} stands here twice, first in line {parent.entries[key].line}",
                "Remove one of them",
            )
        return (key if isinstance(key, str) else f"\0{len(parent.entries or ())}"), node.line

    def enter(self, parent: _OpenCollection, key: str, line: int, node: Node) -> None:
        if key != "<<" or line:
            if parent.entries is not None:
                parent.entries.setdefault(key, Entry(line, node))
            return
        several = node.value if isinstance(node.value, tuple) else (node,)
        if not all(isinstance(one.value, Mapping) for one in several):
            self.error(node.line, "<< takes a mapping or a list of mappings")
        parent.merged.extend(several)

    def error(self, line: int, rule: str, hint: str = "") -> None:
        self.problems.error(Place(self.file, self.number, line), rule, hint=hint)


def compose(text: str, file: str, problems: Problems) -> list[Document]:
    """Return all documents of a text that have any content, as far as the text can be read."""
    composer = _Composer(file, problems)
    documents: list[Document] = []
    try:
        for document in composer.documents(text):
            documents.append(document)  # noqa: PERF402 (what was read before a mistake is kept)
    except _UnreadableError as error:
        composer.error(error.line, error.rule, error.hint)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = next(iter(text.splitlines()[mark.line : mark.line + 1]), "") if mark else ""
        hint = "Indent with spaces, not with tabs" if "\t" in line[: len(line) - len(line.lstrip())] else ""
        composer.error(mark.line + 1 if mark else 0, f"the text must be YAML: {error.problem or error.context}", hint)
    except (yaml.YAMLError, ValueError) as error:  # characters that YAML doesn't allow
        composer.error(0, f"the text must be YAML: {' '.join(str(error).split())[:200]}")
    return documents


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _plain(text: str) -> Scalar:
    """Return the value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _RADIX.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text
