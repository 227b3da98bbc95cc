"""The kinds of panels: Grafana's JSON, made from one or more queries.

The look of each kind is defined once here, so that panels differ only in their queries, which are in `board`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = ["DATASOURCE", "WIDTH", "Json", "Query", "Row", "bars", "heatmap", "lay_out", "stat", "table", "timeseries"]

Json = dict[str, Any]

WIDTH: Final = 24
"""How wide Grafana's grid is."""

DATASOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """One question in PromQL, and how each series of the answer is called."""

    expr: str
    legend: str = "__auto"

    def target(self, ref: str, *, instant: bool = False, shape: str = "time_series") -> Json:
        return {
            "refId": ref,
            "datasource": DATASOURCE,
            "expr": self.expr,
            "legendFormat": self.legend,
            "format": shape,
            "instant": instant,
            "range": not instant,
            "editorMode": "code",
        }


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one title; with ``repeat``, once for each value of that variable."""

    title: str
    panels: Sequence[Json]
    repeat: str | None = None


def timeseries(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "short",
    stack: bool = False,
    most: float | None = None,
    width: int = 8,
) -> Json:
    """Lines over time; what adds up to a whole is stacked."""
    custom: Json = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if stack else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stack else "none", "group": "A"},
    }
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return _panel(
        "timeseries",
        title,
        description,
        _targets(queries),
        fields=_fields(unit, most, custom),
        options=options,
        width=width,
    )


def stat(
    title: str,
    description: str,
    query: Query,
    *,
    unit: str = "short",
    steps: Sequence[tuple[float, str]] = (),
    width: int = 4,
) -> Json:
    """One number with its course; ``steps`` say from which value on it has which color."""
    options = {
        "colorMode": "value" if steps else "none",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showPercentChange": False,
        "textMode": "auto",
        "wideLayout": True,
    }
    fields = _fields(unit, None, {})
    fields["defaults"]["thresholds"] = {
        "mode": "absolute",
        "steps": [{"color": "green", "value": None}, *({"color": color, "value": value} for value, color in steps)],
    }
    fields["defaults"]["color"] = {"mode": "thresholds"}
    return _panel("stat", title, description, _targets([query]), fields=fields, options=options, width=width, height=4)


def heatmap(title: str, description: str, query: Query, *, unit: str = "s", width: int = 8) -> Json:
    """How many had which value when: a column per moment, darker where there were more."""
    options = {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "exponent": 0.5,
            "fill": "dark-orange",
            "reverse": False,
            "scale": "exponential",
            "steps": 64,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit},
    }
    custom = {"scaleDistribution": {"type": "linear"}}
    fields: Json = {"defaults": {"custom": custom}, "overrides": []}
    targets = [query.target("A", shape="heatmap")]
    return _panel("heatmap", title, description, targets, fields=fields, options=options, width=width)


def bars(title: str, description: str, query: Query, *, unit: str = "short", width: int = 8) -> Json:
    """Who has how much now, the most first as the query sorts them."""
    options = {
        "displayMode": "basic",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "maxVizHeight": 300,
        "minVizHeight": 16,
        "minVizWidth": 8,
        "namePlacement": "auto",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showUnfilled": True,
        "sizing": "auto",
        "valueMode": "color",
    }
    targets = [query.target("A", instant=True)]
    return _panel("bargauge", title, description, targets, fields=_fields(unit, None, {}), options=options, width=width)


def table(title: str, description: str, columns: Sequence[tuple[str, Query]], *, width: int = WIDTH) -> Json:
    """Return a table with a row for each set of labels and a named column for each query."""
    targets = [query.target(_ref(n), instant=True, shape="table") for n, (_, query) in enumerate(columns)]
    renamed = {f"Value #{_ref(n)}" if len(columns) > 1 else "Value": name for n, (name, _) in enumerate(columns)}
    fields = _fields("short", None, {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False})
    fields["defaults"]["decimals"] = 1
    options = {"showHeader": True, "cellHeight": "sm", "frameIndex": 0}
    panel = _panel("table", title, description, targets, fields=fields, options=options, width=width)
    panel["transformations"] = [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": renamed}},
    ]
    return panel


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _targets(queries: Sequence[Query]) -> list[Json]:
    return [query.target(_ref(number)) for number, query in enumerate(queries)]


def _fields(unit: str, most: float | None, custom: Json) -> Json:
    defaults: Json = {"unit": unit, "min": 0, "color": {"mode": "palette-classic"}, "custom": custom}
    if most is not None:
        defaults["max"] = most
    return {"defaults": defaults, "overrides": []}


def _panel(
    kind: Literal["timeseries", "stat", "heatmap", "bargauge", "table"],
    title: str,
    description: str,
    targets: list[Json],
    *,
    fields: Json,
    options: Json,
    width: int,
    height: int = 8,
) -> Json:
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"x": 0, "y": 0, "w": width, "h": height},
        "targets": targets,
        "fieldConfig": fields,
        "options": options,
    }


@dataclass(slots=True)
class _Cursor:
    """Where the next panel goes: from the left to the right, then on below."""

    x: int = 0
    y: int = 0
    below: int = 0
    placed: list[Json] = field(default_factory=list)

    def place(self, panel: Json) -> None:
        size = panel["gridPos"]
        if self.x + size["w"] > WIDTH:
            self.end_line()
        self.placed.append({"id": len(self.placed) + 1, **panel, "gridPos": {**size, "x": self.x, "y": self.y}})
        self.x += size["w"]
        self.below = max(self.below, self.y + size["h"])

    def end_line(self) -> None:
        self.x, self.y = 0, self.below


def lay_out(rows: Sequence[Row]) -> list[Json]:
    """All panels, numbered and at their places, each row after its title."""
    cursor = _Cursor()
    for row in rows:
        cursor.end_line()
        title: Json = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
        if row.repeat is not None:
            title["repeat"] = row.repeat
        cursor.place({**title, "gridPos": {"x": 0, "y": 0, "w": WIDTH, "h": 1}})
        for panel in row.panels:
            cursor.place(panel)
    return cursor.placed
