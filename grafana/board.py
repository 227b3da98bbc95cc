"""The dashboard: its rows in the order in which an operator looks, and what can be chosen at the top.

Queries use no recording rules, so that it works as soon as Prometheus scrapes a server.
"""

from typing import Any, Final

from grafana.adaptive import adaptive
from grafana.causes import borrowing, clients, fairness, rejections, servers
from grafana.event_loop import event_loop
from grafana.fleet import fleet
from grafana.gates import gates
from grafana.named import queues
from grafana.panels import DATASOURCE, Json, lay_out
from grafana.queries import SERVER
from grafana.service import level, overview, waiting
from grafana.shadow import shadow

__all__ = ["TITLE", "dashboard"]

TITLE: Final = "API Priority and Fairness"


def _variables() -> list[Json]:
    """Return the variables that can be chosen at the top: Prometheus, job, instances, levels."""
    return [
        {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "hide": 0},
        _variable("job", "Job", "label_values(apf_nominal_limit_seats, job)"),
        _variable("instance", "Instance", 'label_values(apf_nominal_limit_seats{job=~"$job"}, instance)'),
        _variable("level", "Level", f"label_values(apf_nominal_limit_seats{{{SERVER}}}, priority_level)"),
    ]


def _variable(name: str, label: str, query: str) -> Json:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


def dashboard() -> dict[str, Any]:
    """All of it, as Grafana reads it."""
    about_seats = overview(), level(), waiting(), fairness(), rejections(), borrowing()
    rows = (*about_seats, adaptive(), queues(), gates(), fleet(), event_loop(), shadow(), clients(), servers())
    return {
        "uid": "apf",
        "title": TITLE,
        "description": "Who is served, who waits, who is rejected and why, and how levels share their seats.",
        "tags": ["apf", "fairness", "overload"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "links": [],
        "panels": lay_out(rows),
    }
