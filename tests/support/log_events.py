"""The events in what a test has logged."""

import pytest


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the events of all records, in order; a record of another library has an empty one."""
    return [getattr(record, "event", "") for record in caplog.records]
