"""Where requests of one kind go: all that an admission is made of, found once and used for every one of them."""

from typing import TYPE_CHECKING

from apf_middleware.classification import Classification
from apf_middleware.fairqueuing import Work

if TYPE_CHECKING:
    from apf_middleware.metrics.tally import Tally
    from apf_middleware.runtime.controller import Controller
    from apf_middleware.runtime.level import LevelAtWork

__all__ = ["Destination"]


class Destination:
    """A level at work and a schema's counters there, for the flow of this ``classification``."""

    __slots__ = ("at_work", "classification", "controller", "tally", "work")

    def __init__(
        self, controller: "Controller", classification: Classification, at_work: "LevelAtWork", work: Work
    ) -> None:
        self.controller = controller
        self.classification = classification
        self.at_work = at_work
        self.tally: Tally = at_work.tally(classification.schema)
        self.work = work

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.classification}>"
