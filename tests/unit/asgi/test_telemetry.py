"""The choice of telemetry."""

import sys
from typing import TYPE_CHECKING, Any

import pytest

from apf_middleware import APFMiddleware
from apf_middleware.asgi.telemetry import build_tracing
from apf_middleware.exceptions import MissingExtraError
from tests.support.protected_app import ProtectedApp, configuration

if TYPE_CHECKING:
    from apf_middleware.config import Configuration


pytestmark = pytest.mark.anyio
ON = ", telemetry: {tracing: true}"


def traced(**settings: Any) -> "Configuration":  # noqa: ANN401 - whatever a configuration has
    return configuration(**{"server": ON} | settings)


def test_the_error_for_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "apf_middleware.asgi.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'apf-middleware\[otel\]'"):
        _ = APFMiddleware(ProtectedApp._app, traced()).service  # type: ignore[arg-type]
    assert build_tracing(configuration()) is None
