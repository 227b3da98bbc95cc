"""What a configuration says about OpenTelemetry, as a plain frozen object: are there spans, and what do they tell?"""

from dataclasses import dataclass

__all__ = ["TelemetrySettings"]


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """With ``tracing``, each wait is a span. ``flows`` has spans tell the flow too, whose label may name a user."""

    tracing: bool = False
    flows: bool = False
