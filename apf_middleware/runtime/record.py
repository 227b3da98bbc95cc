"""The form of a pickled admission: its facts, without the server that it belongs to."""

from dataclasses import dataclass

from apf_middleware.fairqueuing import Reason

__all__ = ["AdmissionRecord"]


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """The facts of an admission at the moment when it was pickled, under the names that they have there."""

    level: str
    schema: str
    flow: str
    seats: int
    waited: float
    reason: Reason | None
