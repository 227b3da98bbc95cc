"""Gates that a configuration can have: how much at a time, or how much a second."""

from dataclasses import dataclass
from typing import Literal

from apf_middleware.classification import Distinguisher

__all__ = ["GateSettings"]


@dataclass(frozen=True, slots=True)
class GateSettings:
    """One gate: a ``capacity`` with its ``limit``, or ``tokens`` with ``rate`` a second and ``burst``.

    It counts for each value of the ``key`` apart, or else ``per`` flow, schema, level, or once for the server. A
    request takes ``cost`` of it, or as many as it takes seats.
    """

    name: str
    kind: Literal["capacity", "tokens"]
    limit: int = 0
    rate: float = 0
    burst: int = 0
    key: Distinguisher | None = None
    per: Literal["server", "level", "schema", "flow"] = "server"
    status: int = 503
    max_parked: int | None = None
    release: Literal["response", "headers"] = "response"
    cost: int | Literal["seats"] = 1
    on_error: Literal["admit", "reject", "backoff"] = "admit"
