"""Requests that name their queue: in a header, if the caller is trusted, or by a value that their schema reads.

A schema says to which level a request goes; a queue that the request names takes precedence. Exempt levels can't be
named, because that would remove all limits, and an exempt request stays exempt. A request that names an unknown queue
goes to the default queue or is answered at once, as the configuration says.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from apf_middleware.classification import Classification, RequestDigest
from apf_middleware.classification.distinguisher import compile_distinguisher
from apf_middleware.config import Configuration
from apf_middleware.config.level_conflicts import default_queue

__all__ = ["NOT_FOUND", "NOT_LEAF", "REASONS", "QueueNaming", "UnknownQueue"]

NOT_FOUND: Final = "queue-not-found"
"""The reason why a request can't go to the queue that it names if there is none."""

NOT_LEAF: Final = "not-leaf"
"""The reason why a request can't go to a queue that is the parent of others."""

REASONS: Final = (NOT_FOUND, NOT_LEAF)
"""All reasons."""


class UnknownQueue(NamedTuple):
    """The status and the reason for a request that can't go to the queue that it names."""

    status: int
    reason: str


class QueueNaming:
    """Find the queues that requests name, among the levels of one configuration.

    ``comes_from_proxy`` returns whether a request of this scope comes from a trusted proxy.
    """

    __slots__ = ("_comes_from_proxy", "_default", "_groups", "_header", "_levels", "_parents", "_readers", "_settings")

    def __init__(self, configuration: Configuration, comes_from_proxy: Callable[[Any], bool]) -> None:
        self._settings = settings = configuration.server.queues
        self._comes_from_proxy = comes_from_proxy
        self._header = settings.header
        self._groups = frozenset(settings.groups)
        self._levels = configuration.working_levels
        self._parents = configuration.parents
        self._default = default_queue(configuration)
        # `compile_distinguisher` compiles a schema's ``distinguisher``, so ``queue`` is put in its place.
        self._readers = {
            schema.name: compile_distinguisher(replace(schema, distinguisher=schema.queue))
            for schema in configuration.schemas
            if schema.queue is not None
        }

    def place(self, scope: object, digest: RequestDigest, found: Classification) -> Classification | UnknownQueue:
        """Return ``found`` with the queue that the request names instead; UnknownQueue if it can't go there."""
        level = self._levels.get(found.level)
        if level is None or level.exempt:
            return found
        name = self._named(scope, digest, found)
        if not name or name == found.level:
            return found
        named = self._levels.get(name)
        # an exempt level can't be named, so it is treated like an unknown one
        if named is not None and not named.exempt:
            return found._replace(level=name)
        if self._settings.unknown == "default":
            return found._replace(level=self._default)
        status = 404 if self._settings.unknown == "notFound" else 503
        return UnknownQueue(status, NOT_LEAF if name in self._parents else NOT_FOUND)

    def _named(self, scope: object, digest: RequestDigest, found: Classification) -> str:
        """Return the name of the queue that the request names, or an empty string."""
        if self._header:
            name = digest.headers.get(self._header, "")
            if name and self._believes(scope, digest):
                return name
        # The header of an untrusted caller is ignored rather than refused, because any client can send it.
        read = self._readers.get(found.schema)
        return "" if read is None else read(digest)

    def _believes(self, scope: object, digest: RequestDigest) -> bool:
        if not self._groups.isdisjoint(digest.identity.groups):
            return True
        return self._settings.trusted_proxies and self._comes_from_proxy(scope)

    def __repr__(self) -> str:
        return f"<QueueNaming by {self._header or 'schemas'} among {len(self._levels)} levels>"
