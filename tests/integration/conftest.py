"""Fixtures of integration tests, each of which runs on asyncio and on trio."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from apf_middleware.asgi import telemetry
from apf_middleware.runtime.waiting import wait_in_scope


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def exporter() -> InMemorySpanExporter:
    """Where spans go; the process has one provider, and whoever comes first sets it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    """Return the spans of one test."""
    exporter.clear()
    yield exporter
    exporter.clear()


@pytest.fixture(params=["each in its own way", "the plain way"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """On asyncio there is another way to wait than the plain one, which must do the same there."""
    if request.param == "the plain way":
        monkeypatch.setattr(telemetry, "wait_for_seat", wait_in_scope)
    return str(request.param)
