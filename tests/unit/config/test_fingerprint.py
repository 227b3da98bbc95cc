"""Digests of configurations."""

import pytest

from apf_middleware.config import load_text
from apf_middleware.config.fingerprint import fingerprint

TEXT = """
apiVersion: apf/v1
kind: Server
spec: {seats: 4}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 100}
"""


def test_equal_configurations_have_one_digest() -> None:
    other = TEXT.replace("{shares: 100}", "\n  shares: 100\n")

    assert fingerprint(load_text(TEXT)) == fingerprint(load_text(other))
    assert len(fingerprint(load_text(TEXT))) == 16


@pytest.mark.parametrize(("old", "new"), [("seats: 4", "seats: 5"), ("shares: 100", "shares: 101"), ("crowd", "all")])
def test_what_decides_about_requests_changes_it(old: str, new: str) -> None:
    assert fingerprint(load_text(TEXT)) != fingerprint(load_text(TEXT.replace(old, new)))


def test_what_only_shows_them_does_not() -> None:
    shown = TEXT.replace("seats: 4", "seats: 4, admin: {groups: [staff]}, metrics: {path: /numbers}")

    assert fingerprint(load_text(TEXT)) == fingerprint(load_text(shown))
