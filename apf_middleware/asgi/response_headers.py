"""The response headers that say which schema and level a request belonged to."""

from typing import Final
from uuid import UUID, uuid5

from apf_middleware.asgi.scope import Headers
from apf_middleware.classification import Classification
from apf_middleware.config.responses import ResponseSettings

__all__ = ["ResponseHeaders"]

_NAMESPACE: Final = UUID("b6b3d1a0-6c0f-5f0e-9a55-0f2d8b1f7c11")  # another one would change the UIDs that clients know


class ResponseHeaders:
    """The response headers that identify schema and level, by name or by UID."""

    __slots__ = ("_known", "_names", "are_for_all", "settings")

    def __init__(self, settings: ResponseSettings) -> None:
        self.settings: ResponseSettings = settings
        self._known: dict[tuple[str, str], Headers] = {}
        self.are_for_all: bool = settings.headers_on == "all"  # otherwise for rejections and requests that have waited
        self._names = {
            "apf": (b"x-apf-flow-schema", b"x-apf-priority-level"),
            "kubernetes": (b"x-kubernetes-pf-flowschema-uid", b"x-kubernetes-pf-prioritylevel-uid"),
        }[settings.dialect]

    @property
    def are_names(self) -> bool:
        return self.settings.names == "shown"

    def of(self, classification: Classification) -> Headers:
        """Return the headers that name schema and level; none if the configuration says so."""
        # Requests of one schema may name different queues, so the level is part of the key. Both names come from the
        # configuration, so clients can't make the dictionary grow.
        key = classification.schema, classification.level
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._written(*key)
        return found

    def _written(self, schema: str, level: str) -> Headers:
        if self.settings.headers == "none":
            return []
        if self.settings.dialect == "kubernetes" or not self.are_names:
            schema, level = _uid("FlowSchema", schema), _uid("PriorityLevel", level)
        values = schema, level
        return [(name, value.encode("latin-1")) for name, value in zip(self._names, values, strict=True)]


def _uid(kind: str, name: str) -> str:
    """Return the UID of an object, which is the same in all workers and after a restart."""
    return str(uuid5(_NAMESPACE, f"{kind}/{name}"))
