"""Settings of gates: the ``gates`` of a Server document, which limit an amount at a time or per second."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, WrapValidator

from apf_middleware.config.http_rules import AnyDistinguisher
from apf_middleware.config.settings import Settings, Violation, number_or_word
from apf_middleware.config.values import DEPENDS, DnsSubdomain
from apf_middleware.frozen import frozen

__all__ = ["GateSettings", "TokenBucketSettings"]

_MOST: int = 1_000_000_000


@frozen
class TokenBucketSettings(Settings):
    """A bucket that gets ``rate`` tokens per second and holds at most ``burst``."""

    rate: Annotated[float, Field(gt=0, le=1e9)]
    burst: Annotated[int, Field(ge=1, le=_MOST)]


@frozen
class GateSettings(Settings):
    """One gate: a ``capacity``, of which a request takes its ``cost`` while it runs, or ``tokens``, which it uses up.

    The gate counts separately for each value of ``key``, or else ``per`` flow, schema or level, or once for the server.
    A cost of ``seats`` is the number of the request's seats. The default ``status`` of rejections is 503 for a capacity
    and 429 for tokens.
    """

    renamed: ClassVar[Mapping[str, str]] = {"limit": "capacity"}
    always_written: ClassVar[frozenset[str]] = frozenset({"per", "status", "release", "on_error", "cost"})

    name: DnsSubdomain
    capacity: Annotated[int, Field(ge=0, le=_MOST)] | None = None
    tokens: TokenBucketSettings | None = None
    key: AnyDistinguisher | None = None
    per: Literal["server", "level", "schema", "flow"] | None = None
    status: Annotated[int, Field(ge=400, le=599), DEPENDS] = 0
    release: Literal["response", "headers"] = "response"
    on_error: Literal["admit", "reject", "backoff"] = "admit"
    cost: Annotated[Annotated[int, Field(ge=1, le=_MOST)] | Literal["seats"], WrapValidator(number_or_word)] = 1
    max_parked: Annotated[int, Field(ge=1)] | None = None

    def __post_init__(self) -> None:
        if not self.status:
            object.__setattr__(self, "status", 503 if self.tokens is None else 429)
        if self.key is None and self.per is None:
            object.__setattr__(self, "per", "server")
        Settings.__post_init__(self)

    def rules(self) -> Iterator[Violation]:
        if (self.capacity is None) is (self.tokens is None):
            yield Violation((), self.name, "a gate must have exactly one of capacity and tokens")
        if self.key is not None and self.per is not None:
            yield Violation(("per",), self.per, "it must be absent where there is a key")
        if self.tokens is not None and self.release != "response":
            yield Violation(("release",), self.release, "tokens are used up and never given back")
        most = self.capacity if self.tokens is None else self.tokens.burst
        if most and isinstance(self.cost, int) and self.cost > most:
            what = "the capacity" if self.tokens is None else "the burst"
            rule = f"it must not exceed {what}, which is {most}, otherwise no request can ever pass"
            yield Violation(("cost",), self.cost, rule)
