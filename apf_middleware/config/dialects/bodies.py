"""The ``bodies`` part of a Server document of ``apf/v1``."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from apf_middleware.config.bodies import BodySettings
from apf_middleware.config.dialects.base import Broken
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.dialects.values import (
    Duration,
    Size,
    duration_ns,
    size_bytes,
    written_duration,
    written_size,
)

__all__ = ["BodiesModel", "bodies_part"]


class BodiesModel(CamelModel):
    """``holdSeats`` follows the suggested objects if it isn't given."""

    hold_seats: bool | None = None
    buffer: Size = "64KiB"
    min_rate: Size = "1KiB"
    patience: Duration = "10s"
    max_receiving: int = Field(default=1000, ge=1, le=1_000_000)
    max_buffered: Size = "32MiB"
    any_method: bool = False

    def rules(self) -> Iterator[Broken]:
        if size_bytes(self.buffer) == 0:
            yield Broken(("buffer",), self.buffer, "it must be more than nothing", "Write holdSeats: true")
        if size_bytes(self.buffer) > size_bytes(self.max_buffered):
            yield Broken(("buffer",), self.buffer, f"it must not exceed maxBuffered, which is {self.max_buffered}")
        if duration_ns(self.patience) == 0:
            hint = "Write minRate: 0B to let bodies take any time"
            yield Broken(("patience",), self.patience, "it must be more than nothing", hint)

    def built(self) -> BodySettings:
        return BodySettings(
            self.hold_seats is not False,
            size_bytes(self.buffer),
            size_bytes(self.min_rate),
            duration_ns(self.patience),
            self.max_receiving,
            size_bytes(self.max_buffered),
            self.any_method,
        )


def bodies_part(settings: BodySettings) -> dict[str, Any]:
    """What these settings say; whether seats are held is always said, for that depends on other documents if not."""
    usual = BodySettings()
    part: dict[str, Any] = {"holdSeats": settings.hold_seats}
    for key, name in (("buffer", "buffer"), ("minRate", "min_rate"), ("maxBuffered", "max_buffered")):
        if getattr(settings, name) != getattr(usual, name):
            part[key] = written_size(getattr(settings, name))
    if settings.patience_ns != usual.patience_ns:
        part["patience"] = written_duration(settings.patience_ns)
    if settings.max_receiving != usual.max_receiving:
        part["maxReceiving"] = settings.max_receiving
    if settings.any_method:
        part["anyMethod"] = True
    return part
