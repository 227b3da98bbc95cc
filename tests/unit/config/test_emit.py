"""Configurations written in either format."""

from dataclasses import replace
from pathlib import Path

import pytest

from apf_middleware.config import load, load_text
from apf_middleware.config.emit import emit
from tests.support.labelled_documents import LABELLED

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("name", ["kep-example.yaml", "kubectl.yaml"])
def test_other_formats_become_ours(name: str) -> None:
    configuration = load(DATA / name)

    assert load_text(emit(configuration)) == configuration


def test_a_schema_that_takes_nothing_can_be_written() -> None:
    configuration = load_text(LABELLED)

    assert load_text(emit(configuration)) == configuration
    assert "rules: []" in emit(configuration)


@pytest.mark.parametrize(("defaults", "name"), [("web", "authenticated-users"), ("kubernetes", "global-default")])
def test_what_an_ignored_schema_replaces_is_not_added_again(defaults: str, name: str) -> None:
    server = f"apiVersion: apf/v1\nkind: Server\nspec: {{defaults: {defaults}}}\n"
    schema = f"apiVersion: apf/v1\nkind: FlowSchema\nmetadata: {{name: {name}}}\nspec: {{level: later, rules: []}}\n"
    configuration = load_text(f"{server}---\n{schema}")
    again = load_text(emit(configuration))

    assert again.schemas == configuration.schemas
    assert again.levels == configuration.levels
    assert again.server == replace(configuration.server, defaults="none")


@pytest.mark.parametrize("key", ["fleet", "deadlines", "criticality", "loadReports", "eventLoop", "estimation"])
def test_what_an_empty_mapping_turns_on_stays_on(key: str) -> None:
    configuration = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{{key}: {{}}}}\n")

    assert load_text(emit(configuration)) == configuration
