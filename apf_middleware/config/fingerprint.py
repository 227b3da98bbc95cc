"""The digest of a configuration, by which a recording tells under which one it was made."""

import json
from hashlib import sha256
from typing import Final

from apf_middleware.config.emit import emit_documents
from apf_middleware.config.objects import Configuration
from apf_middleware.config.problems import Problems

__all__ = ["fingerprint"]

_CHARACTERS: Final = 16
_ABOUT_PROCESSES: Final = ("admin", "metrics")


def fingerprint(configuration: Configuration) -> str:
    """Return a digest of everything that decides about requests; two configurations with the same one are equal.

    Objects of the app that documents can't express, such as functions, aren't part of it.
    """
    documents = list(emit_documents(configuration, "apf", Problems()))
    for document in documents:
        for key in _ABOUT_PROCESSES:
            document["spec"].pop(key, None)
    text = json.dumps(documents, default=str, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:_CHARACTERS]
