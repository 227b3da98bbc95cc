"""Values of documents."""

import pytest

from apf_middleware.config import ConfigurationError, load_text, read_source
from apf_middleware.config.emit import emit
from apf_middleware.config.values import size_bytes, written_size


@pytest.mark.parametrize(
    ("text", "size"), [("512B", 512), ("64KiB", 2**16), ("32MiB", 2**25), ("0B", 0), ("3GiB", 3 * 2**30)]
)
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text) == size
    assert written_size(size) == text


@pytest.mark.parametrize("text", ["64", "64kb", "-1B", "1.5KiB"])
def test_other_texts_are_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        size_bytes(text)


@pytest.mark.parametrize(("timeout", "rule"), [("5", "a duration"), ("5 s", "a duration"), ("9000h", "at most a year")])
def test_durations_of_documents(timeout: str, rule: str) -> None:
    with pytest.raises(ConfigurationError, match=rule):
        load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{requestTimeout: {timeout}}}\n")


@pytest.mark.parametrize(("text", "percent"), [("0%", 0), ("5%", 5), ("20%", 20), ("90%", 90)])
def test_parts_of_documents(text: str, percent: int) -> None:
    level = f"apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: l}}\nspec: {{headroom: {text}}}\n"
    configuration = load_text(level)

    assert configuration.levels["l"].headroom_percent == percent
    assert load_text(emit(configuration)).levels["l"] == configuration.levels["l"]


@pytest.mark.parametrize("text", ["20", "'20'", "91%", "-5%", "2.5%", "020%"])
def test_other_values_are_no_parts(text: str) -> None:
    level = f"apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: l}}\nspec: {{headroom: {text}}}\n"
    with pytest.raises(ConfigurationError, match="a percentage from 0% to 90%"):
        load_text(level)


@pytest.mark.parametrize(
    "spec",
    [
        "queues: {header: x-queue, groups: ['*']}",
        "deadlines: {groups: ['*'], extendTo: 30s}",
        "criticality: {groups: ['*']}",
        "estimation: {default: {source: header, name: x-cost, groups: ['*']}}",
    ],
)
def test_an_asterisk_is_no_trusted_group(spec: str) -> None:
    """It means all groups in subjects, and would have no effect here."""
    [error] = read_source(f"apiVersion: apf/v1\nkind: Server\nspec:\n  {spec}\n").errors

    assert error.field.endswith("groups")
    assert "not mean all groups" in error.rule
