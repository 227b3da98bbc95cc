"""What a configuration says about what clients are told."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["ResponseSettings"]


@dataclass(frozen=True, slots=True)
class ResponseSettings:
    """``headers`` tell schema and level on every response, by our names or by Kubernetes'.

    With ``names`` hidden, neither headers nor rejections tell names: UIDs stand for them, as in Kubernetes. A rejection
    asks the client to come back after ``retry_after_least_s`` to ``retry_after_most_s`` seconds. With ``server_timing``
    every response tells how long its request has waited.
    """

    headers: Literal["apf", "kubernetes", "none"] = "apf"
    names: Literal["shown", "hidden"] = "shown"
    status: Literal[429, 503] = 429
    retry_after_least_s: int = 1
    retry_after_most_s: int = 60
    server_timing: bool = False
