"""Labels and annotations of documents, which other tools read: they are kept when a configuration is written."""

from collections.abc import Mapping
from typing import Final

from apf_middleware.config.formats.versions import ZERO_SHARES
from apf_middleware.config.objects import Metadata
from apf_middleware.config.yaml_nodes import Document

__all__ = ["metadata_of"]

_OF_THE_FORM: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", ZERO_SHARES})
"""Annotations about the written form of a document, which don't apply when the object is written in another form."""


def metadata_of(document: Document) -> Metadata:
    """Return the labels and annotations of a document."""
    node = document.root.get("metadata")
    data = node.plain() if node else None
    return Metadata(_texts(data, "labels"), _texts(data, "annotations"))


def _texts(data: object, key: str) -> dict[str, str]:
    given = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(given, Mapping):
        return {}
    return {name: text for name, text in given.items() if isinstance(text, str) and name not in _OF_THE_FORM}
