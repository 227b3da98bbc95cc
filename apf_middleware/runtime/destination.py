"""Where requests of one kind go: all that an admission is made of, found once and used for every one of them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from apf_middleware.classification import ANONYMOUS, Classification, Identity, RequestDigest
from apf_middleware.fairqueuing import Work

if TYPE_CHECKING:
    from apf_middleware.metrics.tally import Tally
    from apf_middleware.runtime.controller import Controller
    from apf_middleware.runtime.level import LevelRuntime

__all__ = ["Destination"]


class Destination:
    """A level at work and a schema's counters there, for the flow of this ``classification`` and who asks.

    Requests that read are counted apart from those of which ``writes`` says that they don't.
    """

    __slots__ = ("classification", "controller", "identity", "route", "runtime", "tally", "work")

    # What gates are told, of the requests that have some: those are received each by itself (see `reception`).
    gates: Sequence[str] = ()
    digest: RequestDigest | None = None
    scope: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        controller: "Controller",
        classification: Classification,
        work: Work,
        identity: Identity = ANONYMOUS,
        *,
        writes: bool = False,
    ) -> None:
        self.runtime: LevelRuntime = controller.levels[classification.level]
        self.identity: Identity = identity
        self.controller: Controller = controller
        self.classification: Classification = classification
        self.tally: Tally = self.runtime.tally(classification.schema, writes=writes)
        self.work: Work = work
        self.route: str | None = None  # under which costs are learned, if they are

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.classification}>"
