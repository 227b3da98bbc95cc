"""The definition that a document contains, in a form that is the same for all formats."""

from typing import Literal

from apf_middleware.classification import FlowSchema
from apf_middleware.config.estimation import EstimateSettings
from apf_middleware.config.objects import Level
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.frozen import frozen

__all__ = ["Definition"]


@frozen
class Definition:
    """An object and the document that defines it.

    ``catch_all`` is the KEP's mark of the level for requests that no schema takes. ``given`` has the keys of the
    settings that a Server document gives.
    """

    thing: Level | FlowSchema | ServerSettings
    document: Document
    format: Literal["apf", "kep", "kubernetes"]
    catch_all: bool = False
    given: frozenset[str] = frozenset()
    estimate: EstimateSettings | None = None
    gates: tuple[str, ...] = ()
