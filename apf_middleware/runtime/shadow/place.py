"""The place that a second configuration gives to similar requests."""

from typing import TYPE_CHECKING

from apf_middleware.runtime.admission import Destination

if TYPE_CHECKING:
    from apf_middleware.classification import Classification, Identity
    from apf_middleware.runtime.shadow.durations import MeanDuration
    from apf_middleware.runtime.shadow.tallies import FlowTally, SchemaTally

__all__ = ["ShadowPlace"]


class ShadowPlace:
    """The ``destination`` of similar requests in the second configuration, and the ``tally`` of their schema there.

    ``identity`` is the caller whom the real server has authenticated, and ``durations`` those of their route. ``flow``
    is the tally of their flow, as long as that is kept. ``is_other`` if the ``real`` classification, which was compared
    last, has another schema or level.
    """

    __slots__ = ("destination", "durations", "flow", "identity", "is_other", "real", "tally")

    def __init__(
        self, destination: Destination, tally: "SchemaTally", identity: "Identity", durations: "MeanDuration"
    ) -> None:
        self.destination: Destination = destination
        self.tally: SchemaTally = tally
        self.identity: Identity = identity
        self.durations: MeanDuration = durations
        self.flow: FlowTally | None = None
        self.real: Classification | None = None
        self.is_other: bool = False

    def compare(self, real: "Classification") -> None:
        """Find out whether the requests are classified otherwise than in the ``real`` server."""
        own = self.destination.classification
        self.real, self.is_other = real, own.schema != real.schema or own.level != real.level

    def __repr__(self) -> str:
        return f"<ShadowPlace {self.destination.classification}>"
