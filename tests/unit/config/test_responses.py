"""What a Server document says about responses."""

import pytest

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.responses import ResponseSettings, RetryAfterBounds

DOCUMENT = "apiVersion: apf/v1\nkind: Server\nmetadata: {name: s}\nspec:\n  responses: "


def test_responses_can_be_chosen() -> None:
    text = "headers: none, dialect: kubernetes, names: hidden, status: 503, retryAfter: {least: 2s, most: 1m30s}"

    bounds = RetryAfterBounds(2, 90)
    chosen = ResponseSettings("none", "kubernetes", "hidden", 503, server_timing=True, retry_after=bounds)
    assert load_text(f"{DOCUMENT}{{{text}, serverTiming: true}}").server.responses == chosen
    assert load_text(DOCUMENT + "{}").server.responses == ResponseSettings()


@pytest.mark.parametrize(
    ("text", "field", "rule"),
    [
        ("{headers: mine}", "headers", "waited"),
        ("{dialect: mine}", "dialect", "kubernetes"),
        ("{status: 500}", "status", "429"),
        ("{retryAfter: {least: 500ms}}", "retryAfter.least", "whole seconds"),
        ("{retryAfter: {least: 0s}}", "retryAfter.least", "whole seconds"),
        ("{retryAfter: {least: 9s, most: 3s}}", "retryAfter.least", "must not exceed most, which is 3s"),
        ("{name: hidden}", "name", "no such key"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(text: str, field: str, rule: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_text(DOCUMENT + text)

    assert f"spec.responses.{field}" in str(caught.value)
    assert rule in str(caught.value)
