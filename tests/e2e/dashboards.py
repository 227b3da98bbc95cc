"""The dashboards and rules of `grafana/` as tests look at them, for our prefix and for Kubernetes'."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from grafana.build import HERE, PREFIX, render

__all__ = ["BOARDS", "KUBERNETES", "asked", "panels", "read_rules"]

KUBERNETES = "apiserver_flowcontrol"
BOARDS: Mapping[str, Any] = {prefix: json.loads(render(prefix)["dashboard.json"]) for prefix in (PREFIX, KUBERNETES)}


def panels(board: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """All panels that ask, and whether each is repeated for every level."""
    repeated = False
    for panel in board["panels"]:
        if panel["type"] == "row":
            repeated = panel.get("repeat") == "level"
        else:
            yield panel, repeated


def asked(text: str, prefix: str) -> set[str]:
    """Return the suffixes of all metrics that a query names."""
    found = re.findall(rf"\b{prefix}_(\w+?)(?:_bucket|_count|_sum)?(?=[{{\[\s,)]|$)", text)
    return set(found)


def read_rules(name: str) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load((HERE / name).read_text())["groups"]
    return groups
