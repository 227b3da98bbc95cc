"""One module for each way to write a configuration; all of them read documents into the same definitions."""

import difflib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Final

from apf_middleware.config.formats import apf
from apf_middleware.config.formats.definition import Definition
from apf_middleware.config.formats.versions import (
    APF_KINDS,
    APF_VERSION,
    KEP_KINDS,
    KUBERNETES_GROUP,
    KUBERNETES_KINDS,
    KUBERNETES_VERSIONS,
)
from apf_middleware.config.problems import Absent, Problems, dotted
from apf_middleware.config.settings import path_of
from apf_middleware.config.yaml_nodes import Document, Entry, Node
from apf_middleware.exceptions import InvalidValueError

__all__ = ["Definition", "define", "unwrapped"]

_LISTS: Final = {"FlowSchemaList": "FlowSchema", "PriorityLevelConfigurationList": "PriorityLevelConfiguration"}
_KINDS: Final = frozenset({*APF_KINDS, *KEP_KINDS, *KUBERNETES_KINDS, *_LISTS})
_GROUPS: Final = ("apf", KUBERNETES_GROUP)
_KUSTOMIZATIONS: Final = frozenset({"kustomization.yaml", "kustomization.yml"})  # may have neither version nor kind
_ALIKE: Final = 0.8
_VERSIONS: Final = (APF_VERSION, *KUBERNETES_VERSIONS)


def define(document: Document, problems: Problems, *, skip_foreign: bool = False) -> Iterator[Definition]:
    """Yield the definitions of a document in any format.

    Objects of other APIs are ignored; unless ``skip_foreign``, each causes a warning.
    """
    for one in unwrapped(document, problems):
        if _is_foreign(one):
            problems.drop(one.faults)  # it may follow other rules
            if not skip_foreign:
                _warn_of_foreign(one, problems)
            continue
        read = _reader(one, problems)
        try:
            definition = read(one, problems) if read else None
        except InvalidValueError as error:  # a rule of the domain that no format checks
            problems.error(
                one.place(("spec",)),
                error.rule,
                field=dotted(path_of(error.name)),
                value=error.value,
                hint=error.hint,
            )
        else:
            if definition is not None:
                yield definition


def unwrapped(document: Document, problems: Problems) -> Iterator[Document]:
    """Yield the objects in a document: the items of a list, or the document itself."""
    kind, version = document.root.get("kind"), document.root.get("apiVersion")
    if kind is None or not isinstance(kind.value, str) or kind.value not in ("List", *_LISTS):
        yield document
        return
    items = document.root.get("items")
    if items is None or not isinstance(items.value, tuple):
        value = Absent.ABSENT if items is None else items.plain()
        field = dotted((*document.base, "items"))
        problems.error(document.place(("items",)), "it must be a list", field=field, value=value)
        return
    implied = {"apiVersion": version, "kind": Node(kind.line, _LISTS[kind.value])} if kind.value in _LISTS else {}
    ends = [*(item.line for item in items.value[1:]), sys.maxsize]  # the lines where the following items begin
    for place, (item, end) in enumerate(zip(items.value, ends, strict=False)):  # without items, one end is left
        root = item
        if isinstance(item.value, Mapping):  # items of a typed list don't repeat its kind
            missing = {key: Entry(item.line, node) for key, node in implied.items() if node and not item.get(key)}
            root = Node(item.line, {**missing, **item.value})
        faults = tuple(one for one in document.faults if item.line <= one.place.line < end)
        inner = Document(document.file, document.number, root, (*document.base, "items", place), faults)
        yield from unwrapped(inner, problems)


def _is_foreign(document: Document) -> bool:
    """Return whether this is an object of another API, and not one of ours with a misspelt kind or version."""
    version, kind = (node.value if node else None for node in map(document.root.get, ("apiVersion", "kind")))
    if version is None and kind is None:
        return PurePath(document.file).name in _KUSTOMIZATIONS
    if not isinstance(version, str) or not isinstance(kind, str) or version in _VERSIONS or _like(kind, _KINDS):
        return False
    group = version.rpartition("/")[0] or version
    return not _like(group, _GROUPS) and not _like(version, _VERSIONS)


@lru_cache(maxsize=1_000)
def _like(text: str, known: Collection[str]) -> bool:
    return text in known or bool(difflib.get_close_matches(text[:60], list(known), 1, _ALIKE))


def _warn_of_foreign(document: Document, problems: Problems) -> None:
    kind = document.root.get("kind")
    problems.warn(
        document.place(("kind",)),
        "this object is of another API, so it is ignored",
        field=dotted((*document.base, "kind")),
        value=kind.plain() if kind else Absent.ABSENT,
        hint="Keep it elsewhere, or pass --skip-foreign",
    )


# Most configurations have one format, and the models of a format are expensive to import.


def _define_kep(document: Document, problems: Problems) -> Definition | None:
    from apf_middleware.config.formats import kep  # noqa: PLC0415

    return kep.define(document, problems)


def _define_kubernetes(document: Document, problems: Problems) -> Definition | None:
    from apf_middleware.config.formats import kubernetes  # noqa: PLC0415

    return kubernetes.define(document, problems)


def _reader(document: Document, problems: Problems) -> Callable[[Document, Problems], Definition | None] | None:
    """Return the reader of the document's format; if there is none, report that and return None."""

    def error(key: str, rule: str, hint: str = "") -> None:
        node = document.root.get(key)
        value = node.plain() if node else Absent.ABSENT
        problems.error(document.place((key,)), rule, field=dotted((*document.base, key)), value=value, hint=hint)

    if not isinstance(document.root.value, Mapping):
        rule = "an object must be a mapping with apiVersion, kind and the rest"
        field = dotted(document.base) or "the document"
        problems.error(document.place(), rule, field=field, value=document.root.plain())
        return None
    version, kind = (node.value if node else None for node in map(document.root.get, ("apiVersion", "kind")))
    known: tuple[str, ...]
    if version is None and (kind == "RequestPriority" or document.root.get("meta")):
        known, reader = KEP_KINDS, _define_kep
    elif version == APF_VERSION:
        known, reader = APF_KINDS, apf.define
    elif version in _VERSIONS:
        known, reader = KUBERNETES_KINDS, _define_kubernetes
    else:
        close = difflib.get_close_matches(str(version)[:60], _VERSIONS, 1) if version is not None else []
        hint = f"Did you mean {close[0]}?" if close else f"Write apiVersion: {APF_VERSION}" if version is None else ""
        if version is None and kind is None:
            hint += f", kind: {' or '.join(APF_KINDS)}, and the rest below spec"
        error("apiVersion", f"it must be one of {', '.join(_VERSIONS)}", hint)
        return None
    if kind not in known:
        close = difflib.get_close_matches(str(kind)[:60], known, 1)
        hint = f"Did you mean {close[0]}?" if close else "apf simulate reads it" if kind == "Scenario" else ""
        error("kind", f"it must be one of {', '.join(known)}", hint)
        return None
    return reader
