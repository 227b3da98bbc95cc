"""Settings of telemetry."""

import pytest

from apf_middleware.config.telemetry import TelemetrySettings
from apf_middleware.exceptions import InvalidValueError


def test_flows_need_tracing() -> None:
    with pytest.raises(InvalidValueError):
        TelemetrySettings(flows=True)
    assert TelemetrySettings(tracing=True, flows=True).flows
