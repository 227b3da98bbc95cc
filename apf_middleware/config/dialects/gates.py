"""The gates of a Server document in ``apf/v1``."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from apf_middleware.config.dialects.http import DistinguisherModel
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.gates import GateSettings
from apf_middleware.config.problems import Absent
from apf_middleware.config.settings import Violation
from apf_middleware.config.values import DnsSubdomain

__all__ = ["GateModel"]


class _TokensModel(CamelModel):
    rate: float = Field(gt=0, le=1e9, description="A second.")
    burst: int = Field(ge=1, le=1_000_000_000)


class GateModel(CamelModel):
    """A gate that schemas and routes can name."""

    name: DnsSubdomain
    capacity: int | None = Field(default=None, ge=0, le=1_000_000_000, description="At most so many at a time.")
    tokens: _TokensModel | None = None
    key: DistinguisherModel | None = Field(default=None, description="It counts for each value of this apart.")
    per: Literal["server", "level", "schema", "flow"] | None = None
    status: int | None = Field(default=None, ge=400, le=599)
    max_parked: int | None = Field(default=None, ge=1, description="By default half of each queue.")
    release: Literal["response", "headers"] = "response"
    cost: Annotated[int, Field(ge=1, le=1_000_000_000)] | Literal["seats"] = 1
    on_error: Literal["admit", "reject", "backoff"] = "admit"

    def rules(self) -> Iterator[Violation]:
        if (self.capacity is None) is (self.tokens is None):
            yield Violation((), Absent.ABSENT, "a gate must have exactly one of capacity and tokens")
        if self.key is not None and self.per is not None:
            yield Violation(("per",), self.per, "it must be absent where there is a key")
        if self.tokens is not None and self.release != "response":
            yield Violation(("release",), self.release, "tokens are used up and never given back")
        most = self.capacity if self.tokens is None else self.tokens.burst
        if most and isinstance(self.cost, int) and self.cost > most:
            what = "the capacity" if self.tokens is None else "the burst"
            yield Violation(("cost",), self.cost, f"it must not exceed {what}, which is {most}, or nobody ever passes")

    def built(self) -> GateSettings:
        """The domain's object."""
        tokens = self.tokens
        return GateSettings(
            self.name,
            "capacity" if tokens is None else "tokens",
            limit=self.capacity or 0,
            rate=0 if tokens is None else tokens.rate,
            burst=0 if tokens is None else tokens.burst,
            key=None if self.key is None else self.key.built(),
            per=self.per or "server",
            status=self.status or (503 if tokens is None else 429),
            max_parked=self.max_parked,
            release=self.release,
            cost=self.cost,
            on_error=self.on_error,
        )
