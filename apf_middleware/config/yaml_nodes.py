"""Nodes and documents of YAML (and of JSON, which is a part of YAML), composed with the line of every field.

Documents may come from attackers. A text is therefore read as a stream of events, and each event is checked against the
limits below before its node is built. PyYAML's own composer has no such limits: it recurses in C without a bound, and a
text of 500,000 opening brackets ends the process.

Plain scalars follow YAML 1.2, including ``0x10`` and ``0o17``. Scalars that only YAML 1.1 reads as something else
(``yes``, ``1_000``, ``12:30``, dates) stay text, which is an error in a field for a boolean or a number. ``0777`` stays
text too, because 1.1 and 1.2 read it as different numbers.

PyYAML's parser around libyaml is used if it is installed, as it is in PyYAML's wheels. Its parser in Python gives the
same results, but is about twenty times slower.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import yaml

from apf_middleware.config.problems import Path, Place, Problem, Problems, brief
from apf_middleware.frozen import frozen

__all__ = ["MAX_DEPTH", "MAX_DOCUMENTS", "MAX_NODES", "Document", "Entry", "Node", "Scalar", "compose"]

MAX_DEPTH: Final = 40
"""The limit of mappings and lists inside each other."""

MAX_NODES: Final = 100_000
"""The limit of values in one file; an alias counts as all values that it stands for."""

MAX_DOCUMENTS: Final = 1_000
"""The limit of documents in one file."""

Scalar = str | int | float | bool | None

_LOADER: Final[type] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TOO_DEEP: Final = f"values must not be nested deeper than {MAX_DEPTH}"
_CORE: Final = "tag:yaml.org,2002:"
_OF_OBJECTS: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
_HALF: Final = re.compile("[\ud800-\udfff]")
_MOST_DIGITS: Final = 100  # products of numbers still fit into floats, and Python's own limit is never reached
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_RADIX: Final = re.compile(r"0x[0-9a-fA-F]{1,15}|0o[0-7]{1,20}")
_FLOAT: Final = re.compile(r"[-+]?(0|[1-9][0-9]{0,18})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?")
_TAGS: Final = {bool: "bool", int: "int", float: "float", type(None): "null", str: ""}
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
    """A value and the line where it begins.

    If nothing of it could be read, which is a problem already, it ``is_unread``, and the value stands for any other.
    """

    line: int
    value: Scalar | tuple["Node", ...] | Mapping[str, Entry]
    is_unread: bool = False

    def plain(self) -> object:
        """Return the value without its lines."""
        if isinstance(self.value, Mapping):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def line_of(self, path: Path) -> int:
        """Return the line of the field at ``path``, or of its closest parent that exists."""
        return self._closest(path).line

    def written(self, path: Path) -> object:
        """Return the value of the field at ``path``, or of its closest parent that exists, without its lines."""
        return self._closest(path).node.plain()

    def is_read(self, path: Path) -> bool:
        """Return whether the field at ``path``, or its closest parent that exists, could be read."""
        return not self._closest(path).node.is_unread

    def _closest(self, path: Path) -> Entry:
        node, line = self, self.line
        for step in path:
            if isinstance(node.value, Mapping) and isinstance(step, str) and step in node.value:
                line, node = node.value[step]
            elif isinstance(node.value, tuple) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.line
            else:
                break
        return Entry(line, node)

    def walk(self, path: Path = ()) -> "Iterator[tuple[Path, Node]]":
        """Yield this node and all nodes in it, each with its path, in the order of the text."""
        yield path, self
        if isinstance(self.value, Mapping):
            for key, entry in self.value.items():
                yield from entry.node.walk((*path, key))
        elif isinstance(self.value, tuple):
            for number, node in enumerate(self.value):
                yield from node.walk((*path, number))

    def get(self, key: str) -> "Node | None":
        """Return the value of a key; None if this is no mapping or has no such key."""
        return self.value[key].node if isinstance(self.value, Mapping) and key in self.value else None


@frozen
class Document:
    """One object. If the file's document is a list of objects, ``base`` is the path of this one in it.

    ``faults`` are the problems that were found in its lines when the file's document was composed.
    """

    file: str
    number: int
    root: Node
    base: Path = ()
    faults: tuple[Problem, ...] = ()

    def place(self, path: Path = ()) -> Place:
        return Place(self.file, self.number, self.root.line_of(path))


class _UnreadableError(Exception):
    """A limit or the syntax is broken, so nothing more can be read from this file."""

    def __init__(self, line: int, rule: str, hint: str = "") -> None:
        super().__init__(rule)
        self.line = line
        self.rule = rule
        self.hint = hint


class _Composer:
    """Composes the events of one file to documents, within the limits."""

    def __init__(self, text: str, file: str, problems: Problems) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self._file = file
        self._problems = problems
        self._number = 0
        self._nodes = 0
        self._faults: list[Problem] = []  # of the document that is being read
        self._anchors: dict[str, tuple[Node, int] | None] = {}  # with the number of nodes; None while it is being read

    def documents(self) -> Iterator[Document]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._number += 1
                self._anchors, self._faults = {}, []
                if self._number > MAX_DOCUMENTS:
                    raise _UnreadableError(_line(event), f"a file must not have more than {MAX_DOCUMENTS} documents")
                root = self._node(next(self._events), 0)
                if root.value is not None and not root.is_unread:
                    yield Document(self._file, self._number, root, faults=tuple(self._faults))

    def _node(self, event: yaml.Event, depth: int) -> Node:
        """Return the node that begins with this event; ``depth`` bounds the recursion."""
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            known = self._anchors.get(str(event.anchor))
            if known is None:
                rule = "contains itself" if event.anchor in self._anchors else "names no anchor before it"
                raise _UnreadableError(line, f"the alias *{event.anchor} {rule}")
            self._count(line, known[1])
            return known[0]
        self._count(line, 1)
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(line, event)
            if event.anchor is not None:
                self._anchors[event.anchor] = node, 1
            return node
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if not isinstance(event, yaml.CollectionStartEvent):
            raise TypeError(event)
        if event.tag not in (None, "!", f"{_CORE}map" if is_mapping else f"{_CORE}seq"):
            self._report_tag(line, event.tag)
        if depth >= MAX_DEPTH:
            raise _UnreadableError(line, _TOO_DEEP)
        before = self._nodes
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node = self._mapping(line, depth + 1) if is_mapping else Node(line, tuple(self._items(depth + 1)))
        if event.anchor is not None:
            self._anchors[event.anchor] = node, self._nodes - before + 1
        return node

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth)

    def _mapping(self, line: int, depth: int) -> Node:
        entries: dict[str, Entry] = {}
        merged: list[Node] = []  # the mappings that << includes
        has_template = False
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            is_merge = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and _is_plain(event)
            node = self._node(event, depth)
            key = "<<" if is_merge else self._key(entries, node, event)
            value = self._node(next(self._events), depth)
            if not is_merge:
                if key is not None:
                    entries.setdefault(key, Entry(node.line, value))
                has_template = has_template or isinstance(node.value, Mapping)
                continue
            several = value.value if isinstance(value.value, tuple) else (value,)
            if not all(isinstance(one.value, Mapping) for one in several):
                self.error(value.line, "<< takes a mapping or a list of mappings")
            merged.extend(several)
        for node in merged:
            if isinstance(node.value, Mapping):
                for key, entry in node.value.items():
                    entries.setdefault(key, entry)
        return Node(line, entries, is_unread=has_template and not entries)

    def _key(self, entries: Mapping[str, Entry], node: Node, event: yaml.Event) -> str | None:
        """Return the key; None if it is invalid, which is reported."""
        key = node.value
        if isinstance(key, Mapping):
            hint = "If {{ … }} is left of a template, such as a Helm chart, render it first"
            self.error(node.line, "a key must be text, and this one is a mapping", hint)
            return None
        if isinstance(key, tuple):
            self.error(node.line, "a key must be text, and this one is a list")
            return None
        if not isinstance(key, str):
            written = event.value[:60] if isinstance(event, yaml.ScalarEvent) else brief(key)
            rule = f"a key must be text, and {written} isn't" if written else "a key must be text, and here is none"
            self.error(node.line, rule, f"Write '{written}', in quotes")
            return None
        if key in entries:
            rule = f"the key {key[:60]!r} stands here twice, first in line {entries[key].line}"
            hint = "Remove one of them"
            self.error(node.line, rule, f"{hint}, or begin the next object with ---" if key in _OF_OBJECTS else hint)
        return key

    def _count(self, line: int, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            rule = f"a file must not have more than {MAX_NODES} values, where an alias counts as all that it stands for"
            raise _UnreadableError(line, rule, "Use fewer aliases, or several files")

    def _scalar(self, line: int, event: yaml.ScalarEvent) -> Node:
        if _HALF.search(event.value):  # libyaml refuses such text itself
            raise _UnreadableError(line, "the text must be YAML: half of a character (a surrogate) stands alone")
        if not _is_plain(event) and event.tag in (None, "!", f"{_CORE}str"):
            return Node(line, event.value)
        if len(event.value) > _MOST_DIGITS and _INTEGER.fullmatch(event.value):
            hint = "Put it in quotes if it is text"
            self.error(line, f"a number must not have more than {_MOST_DIGITS} digits", hint)
            return Node(line, event.value, is_unread=True)
        value = _plain(event.value)
        if event.tag is not None and event.tag != _CORE + _TAGS[type(value)]:
            self._report_tag(line, event.tag)
        return Node(line, value)

    def _report_tag(self, line: int, tag: str) -> None:
        shown = tag.replace(_CORE, "!!")[:60]
        self.error(line, f"the tag {shown} doesn't suit this value or isn't known", "Remove the tag")

    def error(self, line: int, rule: str, hint: str = "") -> None:
        self._faults.append(self._problems.error(Place(self._file, self._number, line), rule, hint=hint))


def compose(text: str, file: str, problems: Problems) -> list[Document]:
    """Return the documents of a text that aren't empty, up to the first part that can't be read."""
    composer = _Composer(text, file, problems)
    documents: list[Document] = []
    try:
        for document in composer.documents():
            documents.append(document)  # noqa: PERF402 (what was read before a mistake is kept)
    except _UnreadableError as error:
        composer.error(error.line, error.rule, error.hint)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = next(iter(text.splitlines()[mark.line : mark.line + 1]), "") if mark else ""
        problem = error.problem or error.context or ""
        hint = ""
        if "\t" in line[: len(line) - len(line.lstrip())]:
            hint = "Indent with spaces, not with tabs"
        elif "mapping values" in problem or "parsing a block" in (error.context or ""):
            hint = "Indent all keys of a mapping alike, and quote text with ': ' in it"
        # libyaml reads ahead, so its own limit (of a thousand levels, in newer versions) may come before ours
        rule = _TOO_DEEP if "nesting depth" in problem else f"the text must be YAML: {problem}"
        composer.error(mark.line + 1 if mark else 0, rule, hint)
    except yaml.reader.ReaderError as error:
        # libyaml counts the position in bytes. Both parsers read ahead, so the document isn't known.
        before = text.partition(chr(error.character))[0]
        rule = f"the text must be YAML, which doesn't allow the character U+{error.character:04X}"
        problems.error(Place(file, 0, before.count("\n") + 1), rule, hint="Remove it")
    except (yaml.YAMLError, ValueError) as error:
        composer.error(0, f"the text must be YAML: {' '.join(str(error).split())[:200]}")
    return documents


def _is_plain(event: yaml.ScalarEvent) -> bool:
    """Return whether a scalar has neither quotes nor a tag."""
    return event.tag is None and bool(event.implicit[0])


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
