"""The ``telemetry`` part of a Server document."""

from collections.abc import Iterator

from apf_middleware.config.dialects.base import Broken
from apf_middleware.config.dialects.rules import CamelModel
from apf_middleware.config.telemetry import TelemetrySettings

__all__ = ["TelemetryModel"]


class TelemetryModel(CamelModel):
    """``tracing`` needs the extra ``otel``, which is looked for when the server starts."""

    tracing: bool = False
    flows: bool = False

    def rules(self) -> Iterator[Broken]:
        if self.flows and not self.tracing:
            yield Broken(("flows",), self.flows, "it says what spans tell, and there are none", "Write tracing: true")

    def built(self) -> TelemetrySettings:
        return TelemetrySettings(self.tracing, self.flows)
