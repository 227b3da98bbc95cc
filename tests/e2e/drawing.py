"""A picture of a dashboard with the results of its queries, drawn by matplotlib in place of Grafana."""

import importlib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["draw"]

Series = Sequence[Mapping[str, Any]]
COLUMNS = 4


def legend(target: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    text: str = target["legendFormat"]
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], "?"), "" if text == "__auto" else text)


def draw(data: Sequence[tuple[Mapping[str, Any], Sequence[Series]]], path: Path) -> None:
    """Draw a small graph per panel, with the series of each of its queries."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    plots = importlib.import_module("matplotlib.pyplot")
    rows = math.ceil(len(data) / COLUMNS)
    figure, axes = plots.subplots(rows, COLUMNS, figsize=(5 * COLUMNS, 2.9 * rows), layout="constrained", squeeze=False)
    for place, (panel, answers) in zip(axes.flat, data, strict=False):
        place.set_title(f"{panel['title']} [{panel['fieldConfig']['defaults'].get('unit', 's')}]", fontsize=9)
        place.tick_params(labelsize=7)
        if panel["type"] == "heatmap":
            draw_heat(place, answers[0])
        elif panel["type"] == "bargauge":
            names = [legend(panel["targets"][0], one["labels"]) for one in answers[0]]
            place.barh(names, [one["points"][-1][1] for one in answers[0]])
            place.invert_yaxis()
        else:
            draw_lines(place, panel, answers)
    for place in axes.flat[len(data) :]:
        place.axis("off")
    figure.savefig(path, dpi=70)
    plots.close(figure)


def draw_lines(place: Any, panel: Mapping[str, Any], answers: Sequence[Series]) -> None:  # noqa: ANN401 (matplotlib)
    begin = min((point[0] for answer in answers for one in answer for point in one["points"]), default=0)
    for target, answer in zip(panel["targets"], answers, strict=True):
        for one in answer:
            times, values = zip(*one["points"], strict=True)
            place.plot([at - begin for at in times], values, label=legend(target, one["labels"]) or None)
    place.set_ylim(bottom=0)
    if place.get_legend_handles_labels()[1]:
        place.legend(fontsize=6, ncols=2)


def draw_heat(place: Any, answer: Series) -> None:  # noqa: ANN401 (matplotlib)
    """Draw a heatmap: buckets are cumulative, so a cell is the difference from the bucket below."""
    rows = sorted(answer, key=lambda one: float(one["labels"]["le"]))
    times = sorted({at for one in rows for at, _ in one["points"]})
    sums = [[dict(one["points"]).get(at, 0.0) for at in times] for one in rows]
    below = [[0.0] * len(times), *sums[:-1]]
    cells = [[max(0.0, a - b) for a, b in zip(one, under, strict=True)] for one, under in zip(sums, below, strict=True)]
    place.imshow(cells, aspect="auto", origin="lower", cmap="Oranges")
    place.set_yticks(range(len(rows)), [one["labels"]["le"] for one in rows])
