"""What the page about metrics says is true."""

import re
from pathlib import Path

from apf_middleware.config.metrics import MetricsSettings
from apf_middleware.fairqueuing import Reason
from apf_middleware.metrics.families import FAMILIES

PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
ROWS = re.findall(r"^\| `apf_(\w+)` \| (\w+) \| (.*?) \|", PAGE, re.MULTILINE)


def test_the_tables_have_every_metric_with_its_type() -> None:
    assert sorted((suffix, kind) for suffix, kind, _ in ROWS) == sorted((one.suffix, one.kind) for one in FAMILIES)


def test_the_tables_have_all_labels_beyond_those_of_schemas_and_levels() -> None:
    common = {"priority_level", "flow_schema"}

    assert {suffix: set(re.findall(r"`(\w+)`", labels)) for suffix, _, labels in ROWS} == {
        one.suffix: set(one.labels) - common for one in FAMILIES
    }


def test_the_page_knows_all_reasons_and_nothing_that_is_none() -> None:
    assert all(f"`{reason.value}`" in PAGE for reason in Reason)


def test_queries_ask_for_metrics_that_there_are() -> None:
    asked = set(re.findall(r"\bapf_(\w+?)(?:_bucket|_count|_sum)?(?=[\[{])", PAGE))

    assert len(asked) >= 4
    assert asked <= {one.suffix for one in FAMILIES}


def test_the_defaults_are_those_that_are_shown() -> None:
    path, prefix = (re.search(rf"{key}: (\S+) +# the default", PAGE) for key in ("path", "prefix"))

    assert path
    assert prefix
    assert MetricsSettings(path=path[1], prefix=prefix[1]) == MetricsSettings()
