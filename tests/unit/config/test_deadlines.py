"""The settings of deadlines: their defaults and their rules."""

import pytest

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.deadlines import USUAL_HEADERS, DeadlineSettings
from apf_middleware.config.emit import emit


def deadlines(spec: str) -> DeadlineSettings | None:
    return load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{deadlines: {spec}}}\n").server.deadlines


def test_without_deadlines_there_are_none() -> None:
    assert load_text("apiVersion: apf/v1\nkind: Server\nspec: {}\n").server.deadlines is None


def test_empty_deadlines_have_the_defaults() -> None:
    settings = deadlines("{}")

    assert settings == DeadlineSettings(USUAL_HEADERS, ("x-request-start", "x-queue-start"), "", 10 * 10**6)


def test_headers_replace_the_usual_ones() -> None:
    settings = deadlines("{headers: {x-left: seconds}, started: [], query: timeout, margin: 5ms}")

    assert settings == DeadlineSettings({"x-left": "seconds"}, (), "timeout", 5 * 10**6)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("{groups: [gateways]}", "groups is ['gateways'], but without extendTo, nobody may extend a deadline"),
        ("{extendTo: soon}", "extendTo is 'soon', but it must be a duration"),
        ("{headers: {X-Left: seconds}}", "headers.X-Left is 'seconds', but its name must be a header's, in lower case"),
        ("{headers: {'x left': seconds}}", "its name must be a header's, in lower case"),
        ("{headers: {'x:left': seconds}}", "its name must be a header's, in lower case"),
        ("{headers: {x-left: hours}}", "x-left"),
        ("{headers: {x-queue-start: seconds}}", "but it is in started, too"),
        ("{started: [x-sent, x y]}", "started[1] is 'x y', but it must be the name of a header"),
        ("{started: ['x-☃']}", "started[0] is 'x-☃', but it must be the name of a header"),
        ("{started: ['']}", "started[0] is '', but it must be the name of a header"),
        ("{query: тайм}", "query is 'тайм', but it must be the name of a query parameter"),
        ("{query: 'a b'}", "query is 'a b', but it must be the name of a query parameter"),
        ("{margin: soon}", "margin is 'soon', but it must be a duration"),
        ("{header: x}", "there is no such key"),
    ],
)
def test_wrong_settings_are_reported(spec: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        deadlines(spec)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    ["{headers: {x-left: seconds}, margin: 0s}", "{groups: [gateways], extendTo: 1m, headers: {baggage: baggage}}"],
)
def test_what_is_written_is_read_again(spec: str) -> None:
    configuration = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{deadlines: {spec}}}\n")
    assert load_text(emit(configuration)) == configuration


def test_names_may_have_hyphens_and_any_case() -> None:
    settings = deadlines("{started: [X-Sent, x-request-start], query: time-out}")

    assert settings is not None
    assert (settings.started, settings.query) == (("x-sent", "x-request-start"), "time-out")


@pytest.mark.parametrize("kind", ["PriorityLevel", "FlowSchema"])
@pytest.mark.parametrize("deadline", ["0s", "999us"])
def test_a_deadline_in_which_nothing_can_be_served_is_reported(kind: str, deadline: str) -> None:
    place = "shares: 10" if kind == "PriorityLevel" else "level: exempt"
    spec = f"{{{place}, deadline: {deadline}}}"
    with pytest.raises(ConfigurationError, match=f"is '{deadline}', but it must be at least 1ms"):
        load_text(f"apiVersion: apf/v1\nkind: {kind}\nmetadata: {{name: one}}\nspec: {spec}\n")


def test_a_schema_has_a_deadline() -> None:
    text = "apiVersion: apf/v1\nkind: FlowSchema\nmetadata: {name: s}\n"
    text += "spec: {level: exempt, deadline: 2s, rules: [{httpRules: [{}]}]}\n"
    configuration = load_text(text)
    [schema] = [one for one in configuration.schemas if one.name == "s"]

    assert schema.deadline_ns == 2 * 10**9
    assert configuration.has_deadlines
    assert load_text(emit(configuration)) == configuration
