"""Settings of OpenTelemetry: the ``telemetry`` of a Server document."""

from collections.abc import Iterator

from apf_middleware.config.settings import Settings, Violation
from apf_middleware.frozen import frozen

__all__ = ["TelemetrySettings"]


@frozen
class TelemetrySettings(Settings):
    """With ``tracing``, each wait is a span; ``flows`` adds the flow, which may contain a user's name, to spans.

    ``tracing`` needs the extra ``otel``, which is looked for when the server starts.
    """

    tracing: bool = False
    flows: bool = False

    def rules(self) -> Iterator[Violation]:
        if self.flows and not self.tracing:
            rule = "there are no spans without tracing"
            yield Violation(("flows",), self.flows, rule, "Write tracing: true")
